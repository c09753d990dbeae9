/* See line_looks.h. */
#define _GNU_SOURCE
#include "line_looks.h"
#include "own_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAGIC "TAUPYLIN"
#define IMPORTING "<frozen importlib"
#define ROWS_AT_MOST ((1 << 14) - 1)
#define ROW_SLOTS (1u << 15)
#define CODES_AT_MOST (1 << 13)
#define CODE_BYTES_AT_MOST (16ll << 20)
#define CODE_SLOTS (1u << 14)
#define CODES_KNOWN_AT_MOST (CODE_SLOTS / 4 * 3)
#define CHECK_NS 1000000000ll /* how often it is checked that an address still has the same code */
#define TRIES 3
#define NO_CODE (-1)
#define NOT_WRITTEN (-2)
#define ADDED_UP UINT32_MAX
#define TEXT_AT_MOST 16384 /* characters */

enum Does { CPU, GIL, LOCK, WAIT, DISK, RUNNABLE, ACTIVE };
enum Kind { OTHER, OWN, IMPORT };

typedef struct Head {
    char magic[8];
    int64_t looks, torn, moved, left_out, imports, cpu_ns;
    int32_t refused, rest;
} Head;

typedef struct Row {
    int64_t pid;
    uint64_t ticks;
    uint32_t thread, state;
    int32_t inner, inner_at, own, own_at;
    int64_t looks, time_ns;
    double squares;
} Row;

typedef struct CodeHead {
    uint32_t file, name;
    int32_t first_line;
    uint32_t lines, rest;
} CodeHead;

/* A code object at its address, with what tells it from a later one there. */
typedef struct Code {
    uint64_t address, file, name, lines, units;
    int64_t checked_ns; /* 0: there was none at the last look */
    int32_t first_line, number;
    enum Kind kind;
} Code;

typedef struct Number { /* of a code object in the file, by its content */
    uint64_t hash;
    int32_t number;
} Number;

typedef struct Looks {
    Head head;
    int64_t pid;
    uint64_t ticks;
    int files[2]; /* of rows and of codes */
    int tasks, has_files, is_full;
    int64_t code_bytes;
    int32_t code_count, known_count, row_count;
    Code codes[CODE_SLOTS];
    Number numbers[CODE_SLOTS];
    Row rows[ROWS_AT_MOST];
    const Thread *of[ROWS_AT_MOST]; /* whose row it is; NULL: of several */
    uint16_t slots[ROW_SLOTS];      /* number of a row, + 1 */
} Looks;

static Looks *looks;
static int run_directory;

int line_looks_begin(int folder, int tasks, uint64_t ticks)
{
    run_directory = folder;
    if (looks == NULL || looks->ticks != ticks) {
        if (looks != NULL)
            munmap(looks, sizeof *looks);
        looks = mmap(NULL, sizeof *looks, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (looks == MAP_FAILED) {
            looks = NULL;
            return -1;
        }
        looks->pid = getpid();
        looks->ticks = ticks;
        memcpy(looks->head.magic, MAGIC, sizeof looks->head.magic);
    }
    looks->tasks = tasks;
    looks->has_files = 0; /* the descriptors of an earlier thread are gone */
    return 0;
}

/* The files are made at the first look: a short process has none. */
static int files_open(void)
{
    static const char *const endings[] = {"lines", "codes"};
    for (int i = 0; i < 2 && !looks->has_files; i++) {
        char name[64];
        snprintf(name, sizeof name, "%lld-%llx.%s", (long long)looks->pid,
                 (unsigned long long)looks->ticks, endings[i]);
        looks->files[i] =
            openat(run_directory, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (looks->files[i] < 0)
            return -1;
    }
    looks->has_files = 1;
    return 0;
}

static int written(int file, const void *data, size_t size, int64_t at)
{
    return pwrite(looks->files[file], data, size, at) == (ssize_t)size ? 0 : -1;
}

void line_looks_spent(int64_t cpu_ns)
{
    looks->head.cpu_ns += cpu_ns;
    if (files_open() == 0)
        (void)written(0, &looks->head, sizeof looks->head, 0);
}

/* ---------------------------------------------------------------- code */

static size_t utf8_put(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if ((point >= 0xd800 && point < 0xe000) || point > 0x10ffff) {
        to[0] = '?';
        return 1;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* A text in UTF-8. Returns its size, -1 if there is none at this address, or it is too long. */
static int64_t text_at(const RemoteThread *thread, uint64_t address, char *to)
{
    static char data[4 * TEXT_AT_MOST];
    RemoteText text;
    size_t size = 0;
    if (remote_text(thread, address, &text) != 0 || text.length > TEXT_AT_MOST ||
        remote_bytes(thread, text.address, data, text.length * (size_t)text.kind) != 0)
        return -1;
    for (uint64_t i = 0; i < text.length; i++) {
        uint16_t two;
        uint32_t point = (unsigned char)data[i];
        if (text.kind == 2) {
            memcpy(&two, data + 2 * i, sizeof two);
            point = two;
        } else if (text.kind == 4)
            memcpy(&point, data + 4 * i, sizeof point);
        size += utf8_put(to + size, point);
    }
    to[size] = 0;
    return (int64_t)size;
}

static char file_text[4 * TEXT_AT_MOST + 1], name_text[4 * TEXT_AT_MOST + 1];

static enum Kind kind_of(const char *file)
{
    return strncmp(file, IMPORTING, strlen(IMPORTING)) == 0 ? IMPORT
           : file_is_own(file)                              ? OWN
                                                            : OTHER;
}

static Code *code_slot(uint64_t address)
{
    size_t slot = table_hash(address) & (CODE_SLOTS - 1);
    while (looks->codes[slot].address != 0 && looks->codes[slot].address != address)
        slot = (slot + 1) & (CODE_SLOTS - 1);
    return &looks->codes[slot];
}

/* The code object at an address, which is read when it is first seen, and again when another one
 * has taken its place. NULL: there is none. */
static Code *code_at(const RemoteThread *thread, uint64_t address, int64_t now)
{
    Code *code = code_slot(address);
    RemoteCode head;
    if (code->checked_ns != 0 && now - code->checked_ns < CHECK_NS)
        return code;
    if (remote_code(thread, address, &head) != 0) {
        code->checked_ns = 0;
        code->kind = OTHER;
        return NULL;
    }
    if (code->checked_ns != 0 && code->file == head.file && code->name == head.name &&
        code->lines == head.lines && code->first_line == head.first_line) {
        code->checked_ns = now;
        return code;
    }
    if (text_at(thread, head.file, file_text) < 0)
        return NULL;
    if (code->address == 0 && looks->known_count++ == CODES_KNOWN_AT_MOST) {
        looks->known_count--;
        return NULL;
    }
    *code = (Code){address, head.file, head.name, head.lines, head.units, now, head.first_line,
                   NOT_WRITTEN, kind_of(file_text)};
    return code;
}

static uint64_t hash_more(uint64_t hash, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3;
    return hash;
}

/* Its table of lines: into the hash or, if that is NULL, into the file. Returns -1 on failure. */
static int lines_read(const RemoteThread *thread, const RemoteCode *head, uint64_t *hash,
                      int64_t at)
{
    static char piece[1 << 14];
    for (uint64_t done = 0; done < head->line_bytes; done += sizeof piece) {
        size_t size = head->line_bytes - done;
        if (size > sizeof piece)
            size = sizeof piece;
        if (remote_bytes(thread, head->lines + done, piece, size) != 0)
            return -1;
        if (hash != NULL)
            *hash = hash_more(*hash, piece, size);
        else if (written(1, piece, size, at + (int64_t)done) != 0)
            return -1;
    }
    return 0;
}

/* Write a code object behind the others; code that is made again has the number that it had. */
static int32_t number_new(const RemoteThread *thread, const Code *code)
{
    RemoteCode head;
    int64_t file, name;
    uint64_t hash = 0xcbf29ce484222325;
    if (remote_code(thread, code->address, &head) != 0 ||
        (file = text_at(thread, head.file, file_text)) < 0 ||
        (name = text_at(thread, head.name, name_text)) < 0)
        return NO_CODE;
    hash = hash_more(hash, file_text, (size_t)file + 1);
    hash = hash_more(hash, name_text, (size_t)name + 1);
    hash = hash_more(hash, (const char *)&head.first_line, sizeof head.first_line);
    if (lines_read(thread, &head, &hash, 0) != 0)
        return NO_CODE;
    hash |= 1;
    size_t slot = table_hash(hash) & (CODE_SLOTS - 1);
    while (looks->numbers[slot].hash != 0 && looks->numbers[slot].hash != hash)
        slot = (slot + 1) & (CODE_SLOTS - 1);
    Number *number = &looks->numbers[slot];
    if (number->hash != 0)
        return number->number;
    CodeHead start = {(uint32_t)file, (uint32_t)name, head.first_line, (uint32_t)head.line_bytes, 0};
    int64_t at = looks->code_bytes, lines = at + (int64_t)sizeof start + file + name;
    if (looks->code_count == CODES_AT_MOST ||
        lines + (int64_t)head.line_bytes > CODE_BYTES_AT_MOST ||
        written(1, file_text, (size_t)file, at + (int64_t)sizeof start) != 0 ||
        written(1, name_text, (size_t)name, at + (int64_t)sizeof start + file) != 0 ||
        lines_read(thread, &head, NULL, lines) != 0 || written(1, &start, sizeof start, at) != 0)
        return NO_CODE;
    looks->code_bytes = lines + (int64_t)head.line_bytes;
    *number = (Number){hash, looks->code_count++};
    return number->number;
}

static int32_t number_of(const RemoteThread *thread, Code *code)
{
    if (code->number == NOT_WRITTEN)
        code->number = number_new(thread, code);
    return code->number;
}

/* ---------------------------------------------------------------- rows */

static uint16_t *row_slot(const Row *key)
{
    uint64_t hash = table_hash(key->thread ^ (uint64_t)key->state << 32);
    hash = table_hash(hash ^ (uint32_t)key->inner ^ (uint64_t)(uint32_t)key->inner_at << 32);
    hash = table_hash(hash ^ (uint32_t)key->own ^ (uint64_t)(uint32_t)key->own_at << 32);
    for (size_t slot = hash & (ROW_SLOTS - 1);; slot = (slot + 1) & (ROW_SLOTS - 1)) {
        const Row *row = &looks->rows[looks->slots[slot] - 1];
        if (looks->slots[slot] == 0 ||
            (row->thread == key->thread && row->state == key->state && row->inner == key->inner &&
             row->inner_at == key->inner_at && row->own == key->own && row->own_at == key->own_at))
            return &looks->slots[slot];
    }
}

static void row_write(int32_t at)
{
    (void)written(0, &looks->rows[at], sizeof(Row),
                  (int64_t)sizeof(Head) + at * (int64_t)sizeof(Row));
}

/* Add up the rows of threads that have ended and whose memory has become another's: so are their
 * times (thread_rows.h). */
static void rows_join(void)
{
    int32_t count = looks->row_count;
    memset(looks->slots, 0, sizeof looks->slots);
    looks->row_count = 0;
    for (int32_t i = 0; i < count; i++) {
        Row row = looks->rows[i];
        const Thread *of = looks->of[i];
        if (of != NULL && of->index != row.thread) {
            row.thread = ADDED_UP;
            of = NULL;
        }
        uint16_t *slot = row_slot(&row);
        if (*slot == 0) {
            int32_t at = looks->row_count++;
            looks->rows[at] = row;
            looks->of[at] = of;
            *slot = (uint16_t)(at + 1);
        } else {
            Row *whole = &looks->rows[*slot - 1];
            whole->looks += row.looks;
            whole->time_ns += row.time_ns;
            whole->squares += row.squares;
        }
    }
    if (ftruncate(looks->files[0], (off_t)(sizeof(Head) + (size_t)looks->row_count * sizeof(Row))))
        return;
    for (int32_t at = 0; at < looks->row_count; at++)
        row_write(at);
    looks->is_full = looks->row_count > ROWS_AT_MOST / 8 * 7;
}

static void note(const LookedThread *looked, Row *key, int64_t took)
{
    if (key->inner >= 0 && looks->row_count == ROWS_AT_MOST && !looks->is_full)
        rows_join();
    uint16_t *slot = key->inner >= 0 ? row_slot(key) : NULL;
    if (slot == NULL || (*slot == 0 && looks->row_count == ROWS_AT_MOST)) {
        looks->head.left_out++;
        return;
    }
    if (*slot == 0) {
        int32_t at = looks->row_count++;
        looks->rows[at] = *key;
        looks->of[at] = looked->thread;
        *slot = (uint16_t)(at + 1);
    }
    Row *row = &looks->rows[*slot - 1];
    row->looks++;
    row->time_ns += took;
    row->squares += (double)took * (double)took;
    looks->head.looks++;
    row_write(*slot - 1);
}

/* ---------------------------------------------------------------- one look */

static ssize_t task_read(long tid, const char *name, char *to, size_t size)
{
    char path[48];
    snprintf(path, sizeof path, "%ld/%s", tid, name);
    int file = openat(looks->tasks, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, to, size - 1);
    if (file >= 0)
        close(file);
    to[got > 0 ? got : 0] = 0;
    return got;
}

/* What a thread does; -1: there is no such thread any more. Of a process that may not be dumped,
 * the file `syscall` is root's. */
static int activity(const RemoteThread *thread)
{
    char text[512];
    long tid = (long)thread->native_id;
    if (task_read(tid, "syscall", text, sizeof text) > 0) {
        if (strncmp(text, "running", 7) == 0)
            return ACTIVE;
        char *words;
        if (strtol(text, &words, 10) == SYS_futex) {
            uint64_t address = strtoull(words, NULL, 16);
            return address - thread->layout.gil < thread->layout.gil_size ? GIL : LOCK;
        }
    }
    if (task_read(tid, "stat", text, sizeof text) <= 0)
        return -1;
    const char *state = strrchr(text, ')');
    return state == NULL || state[1] == 0 ? ACTIVE
           : state[2] == 'D'              ? DISK
           : state[2] == 'R'              ? ACTIVE
                                          : WAIT;
}

/* A look may end at code of the program. */
static int is_own(void *unused, uint64_t code)
{
    (void)unused;
    return code_slot(code)->kind == OWN;
}

enum Place { PLACE_KNOWN, PLACE_NONE, PLACE_TORN };

/* The innermost place, and the innermost of the program. */
static enum Place place(const RemoteThread *thread, const RemoteFrame *frames, size_t count,
                        int64_t now, Row *key)
{
    size_t own = count;
    for (size_t i = 0; i < count && own == count; i++) {
        const Code *code = code_at(thread, frames[i].code, now);
        int64_t instruction = frames[i].instruction;
        if (code == NULL || instruction < -2 || instruction >= (int64_t)(2 * code->units))
            return PLACE_TORN;
        if (code->kind == IMPORT) {
            looks->head.imports++;
            return PLACE_NONE;
        }
        if (code->kind == OWN)
            own = i;
    }
    if (count == 0)
        return PLACE_NONE;
    key->inner = number_of(thread, code_slot(frames[0].code));
    key->inner_at = (int32_t)frames[0].instruction;
    key->own = NO_CODE;
    if (own < count) {
        key->own = number_of(thread, code_slot(frames[own].code));
        key->own_at = (int32_t)frames[own].instruction;
    }
    return PLACE_KNOWN;
}

enum LookResult line_looks_take(LookedThread *looked)
{
    static RemoteFrame frames[REMOTE_FRAMES_AT_MOST];
    RemoteThread *thread = &looked->remote;
    Row key = {.pid = looks->pid, .ticks = looks->ticks, .thread = (uint32_t)looked->index};
    uint64_t moved = thread->moved;
    if (files_open() != 0)
        return LOOK_ENDED;
    for (int try = 0; try < TRIES; try++) {
        size_t count;
        enum RemoteResult result = remote_look(thread, is_own, NULL, frames, &count);
        if (result == REMOTE_FORBIDDEN) {
            looks->head.refused = EPERM;
            return LOOK_FORBIDDEN;
        }
        if (result == REMOTE_GONE)
            return LOOK_ENDED;
        int64_t now = clock_true_ns(CLOCK_MONOTONIC);
        enum Place found =
            result == REMOTE_TORN ? PLACE_TORN : place(thread, frames, count, now, &key);
        if (found == PLACE_TORN)
            continue;
        int64_t took = now - looked->looked_ns;
        int does = found == PLACE_KNOWN ? activity(thread) : ACTIVE;
        looked->looked_ns = now;
        if (does < 0)
            return LOOK_ENDED;
        if (found == PLACE_KNOWN) {
            key.state = (uint32_t)does;
            looks->head.moved += (int64_t)(thread->moved - moved);
            note(looked, &key, took);
        }
        return LOOK_TAKEN;
    }
    looks->head.torn++;
    return LOOK_TAKEN;
}
