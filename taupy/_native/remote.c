/* See remote.h. */
#define _GNU_SOURCE
#include "remote.h"
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define STRUCTURE_AT_MOST 4096 /* bytes of any structure that we read */
#define CHUNK_BYTES (16u << 10)  /* of the interpreter's stack of frames: its first chunk */
#define MARGIN 1024              /* read beyond what was in use at the last look */
#define READS_AT_MOST 256        /* of frames outside of that: generators, older chunks */
#define TRIES 5

enum { PIECES = 4 }; /* of a look: the thread, its link, its stack, the link again */

static uint64_t word_at(const char *data, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, data + offset, sizeof word);
    return word;
}

static ssize_t read_pieces(pid_t pid, void *to, size_t size, const struct iovec *pieces, int count)
{
    struct iovec local = {to, size};
    return process_vm_readv(pid, &local, 1, pieces, (unsigned long)count, 0);
}

int remote_bytes(const RemoteThread *thread, uint64_t address, void *to, size_t size)
{
    struct iovec piece = {(void *)(uintptr_t)address, size};
    return read_pieces(thread->pid, to, size, &piece, 1) == (ssize_t)size ? 0 : -1;
}

/* Of the thread's structure, as much as we need. */
static uint64_t thread_bytes(const RemoteLayout *layout)
{
    uint64_t most = layout->thread_chunk + 16; /* and the top of the stack behind it */
    if (layout->thread_native_id + 8 > most)
        most = layout->thread_native_id + 8;
    return layout->thread_frame + 8 > most ? layout->thread_frame + 8 : most;
}

int remote_begin(RemoteThread *thread, pid_t pid, const RemoteLayout *layout, uint64_t state,
                 uint64_t native_id)
{
    const uint64_t offsets[] = {
        layout->thread_native_id, layout->thread_chunk,      layout->thread_frame,
        layout->cframe_frame,     layout->frame_code,        layout->frame_instruction,
        layout->frame_previous,   layout->frame_owner,       layout->object_type,
        layout->var_size,         layout->code_file,         layout->code_name,
        layout->code_lines,       layout->code_first_line,   layout->code_code,
        layout->bytes_data,       layout->text_length,       layout->text_state,
        layout->text_ascii,       layout->text_compact,
    };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        if (offsets[i] > STRUCTURE_AT_MOST - 32)
            return -1;
    const uint64_t in_frame[] = {layout->frame_code + 8, layout->frame_instruction + 8,
                                 layout->frame_previous + 8, layout->frame_owner + 1};
    for (size_t i = 0; i < sizeof in_frame / sizeof *in_frame; i++)
        if (in_frame[i] > layout->frame_size)
            return -1;
    if (layout->frame_size > STRUCTURE_AT_MOST || layout->kind_shift > 28 ||
        layout->code_file + 8 > layout->code_code || layout->code_name + 8 > layout->code_code ||
        layout->code_lines + 8 > layout->code_code || layout->var_size + 8 > layout->code_code ||
        layout->code_first_line + 4 > layout->code_code ||
        layout->object_type + 8 > layout->code_code ||
        layout->text_length + 8 > layout->text_compact ||
        layout->text_state + 4 > layout->text_compact)
        return -1;
    memset(thread, 0, sizeof *thread);
    thread->pid = pid;
    thread->layout = *layout;
    thread->state = state;
    thread->native_id = native_id;
    thread->link = layout->is_indirect ? 0 : state + layout->thread_frame;
    return 0;
}

typedef struct Walk {
    const RemoteThread *thread;
    const char *stack; /* a copy of what lies at `base` */
    uint64_t base, bytes;
    RemoteFrame *frames;
    size_t count;
} Walk;

/* Follow the frames outwards. Returns whether they are all there, or those up to the last wanted. */
static int walk_frames(Walk *walk, uint64_t frame, RemoteStop *stop, void *context)
{
    const RemoteLayout *layout = &walk->thread->layout;
    char apart[STRUCTURE_AT_MOST];
    int reads = 0, has_base = 0;
    uint64_t last = walk->bytes < layout->frame_size ? 0 : walk->bytes - layout->frame_size;
    walk->count = 0;
    for (int i = 0; i < REMOTE_FRAMES_AT_MOST; i++) {
        if (frame == 0)
            return has_base;
        const char *at = apart;
        int is_inside = frame > walk->base && frame - walk->base <= last;
        if (is_inside)
            at = walk->stack + (frame - walk->base);
        else if (reads++ == READS_AT_MOST)
            break;
        else if (remote_bytes(walk->thread, frame, apart, layout->frame_size) != 0)
            return 0; /* of a generator, or in an older chunk */
        unsigned owner = (unsigned char)at[layout->frame_owner];
        int is_shim = layout->owner_shim != 0 && owner >= layout->owner_shim;
        /* A generator that has just given a value has no caller any more, and is no base. */
        has_base = is_shim || (owner == 0 && (layout->owner_shim == 0 ||
                                              (is_inside && frame - walk->base < 64)));
        if (!is_shim) {
            uint64_t code = word_at(at, layout->frame_code) & ~(uint64_t)7; /* tagged in 3.14 */
            if (code == 0)
                return 0;
            walk->frames[walk->count++] = (RemoteFrame){
                code, (int64_t)(word_at(at, layout->frame_instruction) - code - layout->code_code)};
            if (stop != NULL && stop(context, code))
                return 1;
        }
        frame = word_at(at, layout->frame_previous);
    }
    return 1; /* a deep recursion: the innermost are there */
}

enum RemoteResult remote_look(RemoteThread *thread, RemoteStop *stop, void *context,
                              RemoteFrame *frames, size_t *count)
{
    static char data[STRUCTURE_AT_MOST + 8 + CHUNK_BYTES + 8]; /* the watch has one thread */
    const RemoteLayout *layout = &thread->layout;
    const uint64_t head = thread_bytes(layout);
    *count = 0;
    for (int try = -1; try < TRIES; try++) {
        uint64_t link = thread->link ? thread->link : thread->state;
        uint64_t chunk = thread->chunk ? thread->chunk : thread->state;
        uint64_t bytes = thread->chunk ? thread->bytes : 8;
        struct iovec pieces[PIECES] = {{(void *)(uintptr_t)thread->state, head},
                                       {(void *)(uintptr_t)link, 8},
                                       {(void *)(uintptr_t)chunk, bytes},
                                       {(void *)(uintptr_t)link, 8}};
        uint64_t whole = head + 8 + bytes + 8;
        ssize_t got = read_pieces(thread->pid, data, whole, pieces, PIECES);
        if (got < (ssize_t)head)
            return got < 0 && errno == EPERM ? REMOTE_FORBIDDEN : REMOTE_GONE;
        /* The first read warms the caches: the next one takes a microsecond, not ten. */
        if (try < 0)
            continue;
        if (word_at(data, layout->thread_native_id) != thread->native_id)
            return REMOTE_GONE; /* freed, and perhaps another's */
        int is_fresh = got == (ssize_t)whole;
        if (layout->is_indirect) {
            uint64_t here = word_at(data, layout->thread_frame) + layout->cframe_frame;
            is_fresh &= thread->link == here;
            thread->link = here;
        }
        uint64_t now = word_at(data, layout->thread_chunk);
        if (now == 0)
            return REMOTE_NONE; /* it has run no Python yet */
        uint64_t used = word_at(data, layout->thread_chunk + 8) - now;
        is_fresh &= thread->chunk == now;
        thread->chunk = now;
        thread->bytes = used < CHUNK_BYTES - MARGIN ? used + MARGIN : CHUNK_BYTES;
        if (!is_fresh)
            continue;
        uint64_t innermost = word_at(data, head), after = word_at(data, head + 8 + bytes);
        if (innermost == 0)
            return REMOTE_NONE;
        Walk walk = {thread, data + head + 8, chunk, bytes, frames, 0};
        if (walk_frames(&walk, innermost, stop, context) && walk.count) {
            thread->moved += innermost != after;
            *count = walk.count;
            return REMOTE_FRAMES;
        }
        thread->repeated++;
    }
    return REMOTE_TORN;
}

int remote_code(const RemoteThread *thread, uint64_t address, RemoteCode *code)
{
    const RemoteLayout *layout = &thread->layout;
    char head[STRUCTURE_AT_MOST];
    if (remote_bytes(thread, address, head, layout->code_code) != 0 ||
        word_at(head, layout->object_type) != layout->code_type)
        return -1;
    code->units = word_at(head, layout->var_size);
    code->file = word_at(head, layout->code_file);
    code->name = word_at(head, layout->code_name);
    memcpy(&code->first_line, head + layout->code_first_line, sizeof code->first_line);
    uint64_t lines = word_at(head, layout->code_lines);
    code->lines = lines + layout->bytes_data;
    if (code->units == 0 || code->units > 1u << 28 ||
        remote_bytes(thread, lines + layout->var_size, &code->line_bytes, 8) != 0 ||
        code->line_bytes > REMOTE_LINES_AT_MOST)
        return -1;
    return 0;
}

int remote_text(const RemoteThread *thread, uint64_t address, RemoteText *text)
{
    const RemoteLayout *layout = &thread->layout;
    char head[STRUCTURE_AT_MOST];
    uint32_t state;
    if (remote_bytes(thread, address, head, layout->text_compact) != 0)
        return -1;
    memcpy(&state, head + layout->text_state, sizeof state);
    text->kind = (int)(state >> layout->kind_shift & 7);
    text->length = word_at(head, layout->text_length);
    text->address =
        address + (state & layout->ascii_bit ? layout->text_ascii : layout->text_compact);
    if (!(state & layout->compact_bit) || text->length > REMOTE_TEXT_AT_MOST ||
        (text->kind != 1 && text->kind != 2 && text->kind != 4))
        return -1;
    return 0;
}
