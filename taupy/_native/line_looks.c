/* See line_looks.h. */
#define _GNU_SOURCE
#include "line_looks.h"
#include "clock.h"
#include "table.h"
#include <sys/mman.h>
#include <unistd.h>

#define QUICK_NS 5000000ll
#define SLOW_NS 20000000ll
#define QUICKLY_NS 2000000000ll
#define SHARE 190 /* looks take at most one in so many parts of the time: 0.53 % */
#define CREDIT_NS 60000000ll /* for the first two seconds */
#define SMOOTH 16 /* ticks: what one of them takes is paid for by so many */
#define PAUSE_AT_MOST_NS 1000000000ll

#define MAGIC "TAUPYLI2"
#define ROWS_AT_MOST ((1 << 14) - 1)
#define ROW_SLOTS (1u << 15)
#define CODES_AT_MOST (1 << 13)
#define CODE_BYTES_AT_MOST (16ll << 20)
#define NUMBER_SLOTS (1u << 14)
#define KNOWN_AT_MOST ((1 << 14) - 1)
#define KNOWN_SLOTS (1u << 15)
#define CHECK_NS 1000000000ll /* how often it is checked that an address still has the same code */
#define TRIES 3
#define NO_CODE (-1)
#define NOT_WRITTEN (-2)
#define ADDED_UP UINT32_MAX
#define TEXT_AT_MOST 16384 /* characters */
#define TICK_AT_MOST 16 /* looks of one tick that are compared */
#define JOIN_AFTER 1024 /* looks left out, if adding up rows has made little room */

enum Kind { OTHER, OWN, IMPORT };

typedef struct Head {
    char magic[8];
    int64_t looks, torn, moved, left_out, imports, cpu_ns;
    double pairs, alike, paired; /* [ns2], see state/lines.py */
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
    uint32_t process;
    int32_t first_line, number;
    enum Kind kind;
} Code;

typedef struct Number { /* of a code object in the file, by its content */
    uint64_t hash;
    int32_t number;
} Number;

typedef struct Moment { /* a look of this tick */
    int32_t own, own_at, is_paired;
    double took;
} Moment;

struct Looks {
    Head head;
    Moment tick[TICK_AT_MOST];
    int32_t tick_count;
    OwnFiles own;
    LookIsOver *is_over;
    void *context;
    int files[2]; /* of rows and of codes */
    int64_t code_bytes;
    int64_t began_ns, ticked_ns, credit_ns, mean_ns, chance; /* of ticks */
    int64_t join_at; /* rows are added up only when so many looks were left out */
    int32_t code_count, known_count, row_count;
    uint32_t forgotten; /* how often the known codes were */
    Code known[KNOWN_AT_MOST];
    uint16_t known_slots[KNOWN_SLOTS]; /* number of a known code, + 1 */
    Number numbers[NUMBER_SLOTS];
    Row rows[ROWS_AT_MOST];
    const void *of[ROWS_AT_MOST];  /* whose row it is; NULL: of several */
    uint16_t row_slots[ROW_SLOTS]; /* number of a row, + 1 */
};

Looks *line_looks_new(OwnFiles own, LookIsOver *is_over, void *context)
{
    Looks *looks = mmap(NULL, sizeof *looks, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (looks == MAP_FAILED)
        return NULL;
    memcpy(looks->head.magic, MAGIC, sizeof looks->head.magic);
    looks->own = own;
    looks->is_over = is_over;
    looks->context = context;
    looks->files[0] = looks->files[1] = -1;
    return looks;
}

void line_looks_free(Looks *looks) { munmap(looks, sizeof *looks); }

void line_looks_write_to(Looks *looks, int rows, int codes)
{
    looks->files[0] = rows;
    looks->files[1] = codes;
}

static int written(Looks *looks, int file, const void *data, size_t size, int64_t at)
{
    return pwrite(looks->files[file], data, size, at) == (ssize_t)size ? 0 : -1;
}

static void head_write(Looks *looks)
{
    (void)written(looks, 0, &looks->head, sizeof looks->head, 0);
}

void line_looks_refused(Looks *looks, int why)
{
    looks->head.refused = why;
    head_write(looks);
}

/* ---------------------------------------------------------------- when to look */

void line_looks_begin(Looks *looks, int64_t due)
{
    looks->chance = getpid();
    looks->credit_ns = CREDIT_NS;
    looks->began_ns = looks->ticked_ns = due;
}

/* A tick takes longer when something happens in the program. If its own cost alone said when the
 * next one is due, looks would be rare after that, and each stand for a long time. */
int64_t line_looks_spent(Looks *looks, int64_t now, int64_t cpu_ns)
{
    looks->head.cpu_ns += cpu_ns;
    looks->tick_count = 0;
    head_write(looks);
    int64_t credit = looks->credit_ns + (now - looks->ticked_ns) / SHARE;
    looks->credit_ns = (credit < CREDIT_NS ? credit : CREDIT_NS) - cpu_ns;
    looks->mean_ns += (cpu_ns - looks->mean_ns) / (looks->mean_ns ? SMOOTH : 1);
    looks->ticked_ns = now;
    looks->chance = (looks->chance * 1103515245 + 12345) % (1ll << 31);
    int64_t wanted = now < looks->began_ns + QUICKLY_NS ? QUICK_NS : SLOW_NS;
    int64_t earned = (looks->mean_ns - looks->credit_ns / SMOOTH) * SHARE;
    earned = earned < PAUSE_AT_MOST_NS ? earned : PAUSE_AT_MOST_NS;
    wanted = wanted > earned ? wanted : earned;
    return now + wanted * 3 / 4 + looks->chance * (wanted / 2) / (1ll << 31);
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

static enum Kind kind_of(const Looks *looks, const char *file)
{
    return file_imports(file) ? IMPORT : file_is_own(&looks->own, file) ? OWN : OTHER;
}

static int is_at(const Code *code, uint32_t process, uint64_t address)
{
    return code->address == address && code->process == process;
}

static uint16_t *known_slot(Looks *looks, uint32_t process, uint64_t address)
{
    size_t slot = table_hash(address ^ (uint64_t)process << 40) >> 40 & (KNOWN_SLOTS - 1);
    while (looks->known_slots[slot] != 0 &&
           !is_at(&looks->known[looks->known_slots[slot] - 1], process, address))
        slot = (slot + 1) & (KNOWN_SLOTS - 1);
    return &looks->known_slots[slot];
}

/* The code object at an address, if it is known. */
static Code *code_known(Looks *looks, const LookedThread *looked, uint64_t address)
{
    uint16_t at = *known_slot(looks, looked->process, address);
    return at == 0 ? NULL : &looks->known[at - 1];
}

/* Where there is no room, all that is known is read anew, as processes end unnoticed here. */
static Code *code_new(Looks *looks, uint32_t process, uint64_t address)
{
    if (looks->known_count == KNOWN_AT_MOST) {
        memset(looks->known_slots, 0, sizeof looks->known_slots);
        looks->known_count = 0;
        looks->forgotten++;
    }
    *known_slot(looks, process, address) = (uint16_t)++looks->known_count;
    return &looks->known[looks->known_count - 1];
}

static int is_same(const Code *code, const RemoteCode *head)
{
    return code->file == head->file && code->name == head->name && code->lines == head->lines &&
           code->first_line == head->first_line;
}

/* The code object at an address, which is read when it is first seen, and again when another one
 * has taken its place. NULL: there is none. */
static Code *code_at(Looks *looks, const LookedThread *looked, uint64_t address, int64_t now)
{
    Code *code = code_known(looks, looked, address);
    int is_there = code != NULL && code->checked_ns != 0;
    RemoteCode head;
    if (is_there && now - code->checked_ns < CHECK_NS)
        return code;
    if (remote_code(&looked->remote, address, &head) == 0) {
        if (is_there && is_same(code, &head)) {
            code->checked_ns = now;
            return code;
        }
        if (text_at(&looked->remote, head.file, file_text) >= 0) {
            if (code == NULL)
                code = code_new(looks, looked->process, address);
            *code = (Code){address, head.file, head.name, head.lines, head.units, now,
                           looked->process, head.first_line, NOT_WRITTEN,
                           kind_of(looks, file_text)};
            return code;
        }
    }
    if (code != NULL) {
        code->checked_ns = 0;
        code->kind = OTHER;
    }
    return NULL;
}

static uint64_t hash_more(uint64_t hash, const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3;
    return hash;
}

/* Its table of lines: into the hash or, if that is NULL, into the file. Returns -1 on failure. */
static int lines_read(Looks *looks, const RemoteThread *thread, const RemoteCode *head,
                      uint64_t *hash, int64_t at)
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
        else if (written(looks, 1, piece, size, at + (int64_t)done) != 0)
            return -1;
    }
    return 0;
}

/* Write a code object behind the others; code that is made again has the number that it had.
 * Returns NO_CODE if there is no room, NOT_WRITTEN if it is not there any more. */
static int32_t number_new(Looks *looks, const RemoteThread *thread, const Code *code)
{
    RemoteCode head;
    int64_t file, name;
    uint64_t hash = 0xcbf29ce484222325;
    if (remote_code(thread, code->address, &head) != 0 || !is_same(code, &head) ||
        (file = text_at(thread, head.file, file_text)) < 0 ||
        (name = text_at(thread, head.name, name_text)) < 0)
        return NOT_WRITTEN;
    hash = hash_more(hash, file_text, (size_t)file + 1);
    hash = hash_more(hash, name_text, (size_t)name + 1);
    hash = hash_more(hash, (const char *)&head.first_line, sizeof head.first_line);
    if (lines_read(looks, thread, &head, &hash, 0) != 0)
        return NOT_WRITTEN;
    hash |= 1;
    size_t slot = table_hash(hash) >> 40 & (NUMBER_SLOTS - 1);
    while (looks->numbers[slot].hash != 0 && looks->numbers[slot].hash != hash)
        slot = (slot + 1) & (NUMBER_SLOTS - 1);
    Number *number = &looks->numbers[slot];
    if (number->hash != 0)
        return number->number;
    CodeHead start = {(uint32_t)file, (uint32_t)name, head.first_line, (uint32_t)head.line_bytes, 0};
    int64_t at = looks->code_bytes, lines = at + (int64_t)sizeof start + file + name;
    if (looks->code_count == CODES_AT_MOST ||
        lines + (int64_t)head.line_bytes > CODE_BYTES_AT_MOST ||
        written(looks, 1, file_text, (size_t)file, at + (int64_t)sizeof start) != 0 ||
        written(looks, 1, name_text, (size_t)name, at + (int64_t)sizeof start + file) != 0 ||
        lines_read(looks, thread, &head, NULL, lines) != 0 ||
        written(looks, 1, &start, sizeof start, at) != 0)
        return NO_CODE;
    looks->code_bytes = lines + (int64_t)head.line_bytes;
    *number = (Number){hash, looks->code_count++};
    return number->number;
}

static int32_t number_of(Looks *looks, const RemoteThread *thread, Code *code)
{
    if (code->number == NOT_WRITTEN)
        code->number = number_new(looks, thread, code);
    return code->number;
}

/* ---------------------------------------------------------------- rows */

static int is_row(const Row *row, const Row *key)
{
    return row->pid == key->pid && row->ticks == key->ticks && row->thread == key->thread &&
           row->state == key->state && row->inner == key->inner &&
           row->inner_at == key->inner_at && row->own == key->own && row->own_at == key->own_at;
}

static uint16_t *row_slot(Looks *looks, const Row *key)
{
    uint64_t hash = table_hash((uint64_t)key->pid ^ key->ticks);
    hash = table_hash(hash ^ key->thread ^ (uint64_t)key->state << 32);
    hash = table_hash(hash ^ (uint32_t)key->inner ^ (uint64_t)(uint32_t)key->inner_at << 32);
    hash = table_hash(hash ^ (uint32_t)key->own ^ (uint64_t)(uint32_t)key->own_at << 32);
    size_t slot = hash >> 40 & (ROW_SLOTS - 1);
    while (looks->row_slots[slot] != 0 && !is_row(&looks->rows[looks->row_slots[slot] - 1], key))
        slot = (slot + 1) & (ROW_SLOTS - 1);
    return &looks->row_slots[slot];
}

static void rows_write(Looks *looks, int32_t at, int32_t count)
{
    (void)written(looks, 0, &looks->rows[at], (size_t)count * sizeof(Row),
                  (int64_t)sizeof(Head) + at * (int64_t)sizeof(Row));
}

static Row *row_of(Looks *looks, const Row *key, const void *of)
{
    uint16_t *slot = row_slot(looks, key);
    if (*slot == 0) {
        if (looks->row_count == ROWS_AT_MOST)
            return NULL;
        Row *row = &looks->rows[looks->row_count];
        looks->of[looks->row_count] = of;
        *slot = (uint16_t)++looks->row_count;
        *row = *key;
        row->looks = row->time_ns = 0;
        row->squares = 0;
    }
    return &looks->rows[*slot - 1];
}

static void row_add(Row *row, int64_t number, int64_t time_ns, double squares)
{
    row->looks += number;
    row->time_ns += time_ns;
    row->squares += squares;
}

void line_looks_join(Looks *looks)
{
    int32_t count = looks->row_count;
    memset(looks->row_slots, 0, sizeof looks->row_slots);
    looks->row_count = 0;
    for (int32_t i = 0; i < count; i++) {
        Row row = looks->rows[i];
        const void *of = looks->of[i];
        if (row.thread != ADDED_UP &&
            looks->is_over(looks->context, row.pid, row.ticks, row.thread, of)) {
            row.thread = ADDED_UP;
            of = NULL;
        }
        row_add(row_of(looks, &row, of), row.looks, row.time_ns, row.squares);
    }
    if (ftruncate(looks->files[0],
                  (off_t)(sizeof(Head) + (size_t)looks->row_count * sizeof(Row))) == 0)
        rows_write(looks, 0, looks->row_count);
}

static void paired(Looks *looks, Moment *moment)
{
    looks->head.paired += moment->is_paired ? 0 : moment->took * moment->took;
    moment->is_paired = 1;
}

/* Compare a look with those of the same tick at other threads in the same routine. */
static void compare(Looks *looks, const Row *key, int64_t took)
{
    if (key->own < 0 || looks->tick_count == TICK_AT_MOST)
        return;
    Moment *moment = &looks->tick[looks->tick_count];
    *moment = (Moment){key->own, key->own_at, 0, (double)took};
    for (int32_t i = 0; i < looks->tick_count; i++) {
        Moment *other = &looks->tick[i];
        if (other->own != moment->own)
            continue;
        double product = 2 * moment->took * other->took;
        looks->head.pairs += product;
        looks->head.alike += other->own_at == moment->own_at ? product : 0;
        paired(looks, other);
        paired(looks, moment);
    }
    looks->tick_count++;
}

static void note(Looks *looks, const LookedThread *looked, const Row *key, int64_t took)
{
    Row *row = key->inner >= 0 ? row_of(looks, key, looked->of) : NULL;
    if (row == NULL && key->inner >= 0 && looks->head.left_out >= looks->join_at) {
        line_looks_join(looks);
        if (looks->row_count > ROWS_AT_MOST / 8 * 7)
            looks->join_at = looks->head.left_out + JOIN_AFTER;
        row = row_of(looks, key, looked->of);
    }
    if (row == NULL) {
        looks->head.left_out++;
        return;
    }
    row_add(row, 1, took, (double)took * (double)took);
    compare(looks, key, took);
    looks->head.looks++;
    rows_write(looks, (int32_t)(row - looks->rows), 1);
}

/* ---------------------------------------------------------------- one look */

typedef struct Stop {
    Looks *looks;
    const LookedThread *looked;
} Stop;

/* A look may end at code of the program. */
static int is_own(void *context, uint64_t address)
{
    const Stop *stop = context;
    const Code *code = code_known(stop->looks, stop->looked, address);
    return code != NULL && code->kind == OWN;
}

enum Place { PLACE_KNOWN, PLACE_NONE, PLACE_TORN };

/* The innermost place, and the innermost of the program. */
static enum Place place(Looks *looks, const LookedThread *looked, const RemoteFrame *frames,
                        size_t count, int64_t now, Row *key)
{
    const RemoteThread *thread = &looked->remote;
    uint32_t forgotten = looks->forgotten;
    Code *inner = NULL, *own = NULL;
    for (size_t i = 0; i < count && own == NULL; i++) {
        Code *code = code_at(looks, looked, frames[i].code, now);
        int64_t instruction = frames[i].instruction;
        if (code == NULL || instruction < -2 || instruction >= (int64_t)(2 * code->units) ||
            looks->forgotten != forgotten)
            return PLACE_TORN;
        if (code->kind == IMPORT) {
            looks->head.imports++;
            return PLACE_NONE;
        }
        if (i == 0) {
            inner = code;
            key->inner_at = (int32_t)instruction;
        }
        if (code->kind == OWN) {
            own = code;
            key->own_at = (int32_t)instruction;
        }
    }
    if (inner == NULL)
        return PLACE_NONE;
    key->inner = number_of(looks, thread, inner);
    key->own = own == NULL ? NO_CODE : number_of(looks, thread, own);
    return key->inner == NOT_WRITTEN || key->own == NOT_WRITTEN ? PLACE_TORN : PLACE_KNOWN;
}

enum LookResult line_looks_take(Looks *looks, LookedThread *looked)
{
    static RemoteFrame frames[REMOTE_FRAMES_AT_MOST];
    RemoteThread *thread = &looked->remote;
    const uint64_t moved = thread->moved;
    Stop stop = {looks, looked};
    for (int try = 0; try < TRIES; try++) {
        Row key = {.pid = looked->pid, .ticks = looked->ticks, .thread = (uint32_t)looked->index,
                   .own = NO_CODE};
        size_t count;
        enum RemoteResult result = remote_look(thread, is_own, &stop, frames, &count);
        if (result == REMOTE_FORBIDDEN)
            return LOOK_FORBIDDEN;
        if (result == REMOTE_GONE)
            return LOOK_ENDED;
        int64_t now = clock_true_ns(CLOCK_MONOTONIC);
        enum Place found = result == REMOTE_TORN
                               ? PLACE_TORN
                               : place(looks, looked, frames, count, now, &key);
        if (found == PLACE_TORN)
            continue;
        int64_t took = now - looked->looked_ns;
        looked->looked_ns = now;
        if (found == PLACE_NONE) { /* only what it does from now on counts */
            activity_from_now(&looked->activity);
            return LOOK_TAKEN;
        }
        int does = activity_now(&looked->activity, thread->layout.gil, thread->layout.gil_size,
                                took);
        if (does < 0)
            return LOOK_ENDED;
        key.state = (uint32_t)does;
        looks->head.moved += (int64_t)(thread->moved - moved);
        note(looks, looked, &key, took);
        return LOOK_TAKEN;
    }
    looks->head.torn++;
    return LOOK_TAKEN;
}
