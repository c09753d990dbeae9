/* Collectives as they are issued, begin and end; see collectives.h. */
#define _GNU_SOURCE
#include "collectives.h"
#include "collectives_host.h"
#include "library.h"
#include "process.h"
#include "steps.h"
#include "stretches.h"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASKS 256     /* per communicator, issued but not yet begun */
#define OWNERS 512   /* backend threads */
#define ROOM 512     /* collectives that can begin before a thread with the GIL makes more room */
#define ROOM_SUMS 128
#define A_BLOCK 128

typedef struct Ask {
    uint64_t ticks;
    Node *cause;
} Ask;

typedef struct Communicator {
    CommunicatorRecord *record;
    int group;
    uint64_t asked, begun, kept; /* `begun`: issued ones that have begun, with send and recv */
    Ask asks[ASKS];
    uint64_t first, last; /* into the asks, modulo ASKS */
    const struct Communicator *of; /* of a pair: the group in which it sends or receives */
    int sends;
} Communicator;

typedef struct Owner {
    uint64_t thread;
    Communicator *communicator;
} Owner;

typedef struct Operation {
    uint64_t generation;
    CollectiveRecord *record; /* NULL: not kept */
    CollectiveSum *sum;
    uint64_t begun;
} Operation;

/* A stack of pointers. */
typedef struct Stack {
    void **items;
    size_t count, room;
} Stack;

char *collectives_library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CollectivesHost host;
static int is_tried, is_over;
static uint64_t held_generation; /* generation of everything below */
static Communicator *communicators[COMMUNICATORS];
static unsigned communicator_count, operation_count, owner_count;
static Owner owners[OWNERS];
static OperationRecord *operations;
static Stack records, free_records, free_sums;
static Table sums;
static uint64_t kept_in_step, step_then, without_room;
static Communicator *pairs[PAIRS];
static unsigned pair_count;
static Communicator *called[CALLED];
static unsigned called_count;
static uint64_t calls; /* collectives of these */
static int has_lost[2]; /* receives, sends: some were not counted, so numbers would differ */

/* The point-to-point operation that this thread is about to issue. */
static __thread struct {
    uint64_t generation, ticks;
    Communicator *pair; /* NULL: there was no room */
    int is_known, is_waited_for;
} issued;

/* ---------------------------------------------------------------- free records */

static int stack_push(Stack *stack, void *item)
{
    if (stack->count == stack->room) {
        size_t room = stack->room ? stack->room * 2 : 1024;
        void **items = realloc(stack->items, room * sizeof *items);
        if (items == NULL)
            return -1;
        stack->items = items;
        stack->room = room;
    }
    stack->items[stack->count++] = item;
    return 0;
}

static void *stack_pop(Stack *stack) { return stack->count > 0 ? stack->items[--stack->count] : NULL; }

static void stack_clear(Stack *stack)
{
    free(stack->items);
    *stack = (Stack){0};
}

static void make_room_of(Stack *stack, size_t wanted, uint32_t kind)
{
    _Static_assert(sizeof(CollectiveRecord) == 64 && sizeof(CollectiveSum) == 64, "one stride");
    while (stack->count < wanted) {
        Block *block = part_block(part, kind, 0, A_BLOCK * sizeof(CollectiveRecord));
        if (block == NULL)
            return;
        CollectiveRecord *rows = (CollectiveRecord *)(block + 1);
        for (int i = A_BLOCK - 1; i >= 0; i--)
            if (stack_push(stack, &rows[i]) != 0)
                return;
    }
}

/* Needs the GIL. */
static void make_room(void)
{
    make_room_of(&free_records, ROOM, BLOCK_COLLECTIVES);
    make_room_of(&free_sums, ROOM_SUMS, BLOCK_COLLECTIVE_SUMS);
    stretches_make_room();
}

static void forget(void)
{
    for (unsigned i = 0; i < communicator_count; i++)
        free(communicators[i]);
    for (unsigned i = 0; i < pair_count; i++)
        free(pairs[i]);
    for (unsigned i = 0; i < called_count; i++)
        free(called[i]);
    communicator_count = operation_count = owner_count = pair_count = called_count = 0;
    has_lost[0] = has_lost[1] = 0;
    operations = NULL;
    stack_clear(&records);
    stack_clear(&free_records);
    stack_clear(&free_sums);
    table_clear(&sums);
    stretches_forget();
    kept_in_step = without_room = 0;
    is_over = 0;
    held_generation = generation;
}

/* ---------------------------------------------------------------- issuing */

static Node *cause_on(Thread *thread)
{
    Node *node = __atomic_load_n(&thread->asking, __ATOMIC_ACQUIRE);
    return node != NULL ? node : visible(thread);
}

static Node *cause_of(uint64_t asker)
{
    Thread *thread = threads_now();
    while (thread != NULL && __atomic_load_n(&thread->torch_thread, __ATOMIC_RELAXED) != asker)
        thread = thread->next;
    return thread != NULL && !thread_is_over(thread) ? cause_on(thread) : NULL;
}

/* Note the operations issued since the last call. */
static void note_asked(Communicator *communicator, Node *cause, uint64_t now)
{
    uint64_t asked = host.asked(communicator->group);
    if (asked == UINT64_MAX || asked <= communicator->asked)
        return;
    if (asked - communicator->asked > ASKS)
        communicator->asked = asked - ASKS;
    for (; communicator->asked < asked; communicator->asked++) {
        communicator->asks[communicator->last++ % ASKS] = (Ask){now, cause};
        if (communicator->last - communicator->first > ASKS)
            communicator->first = communicator->last - ASKS;
    }
}

/* Note the operations that the thread has issued, and the stretch before them. */
static void note_all(Thread *thread, Node *cause)
{
    uint64_t now = clock_ticks(), asked = calls;
    for (unsigned i = 0; i < communicator_count; i++) {
        note_asked(communicators[i], cause, now);
        asked += communicators[i]->asked;
    }
    if (thread->asking != NULL || thread->steps != NULL || thread->index == 0)
        stretches_asked(thread, asked); /* most callers have issued nothing */
}

static int is_listening(void)
{
    return __atomic_load_n(&communicator_count, __ATOMIC_ACQUIRE) > 0 &&
           held_generation == generation;
}

void collectives_look(Thread *thread)
{
    if (!is_listening())
        return;
    __atomic_store_n(&thread->torch_thread, host.thread(), __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    make_room();
    note_all(thread, cause_on(thread));
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&thread->asking, NULL, __ATOMIC_RELEASE);
}

void collectives_follow(Thread *thread)
{
    if (is_listening())
        __atomic_store_n(&thread->asking, visible(thread), __ATOMIC_RELEASE);
}

void collectives_node_ended(Thread *thread, Node *node)
{
    if (!is_listening())
        return;
    __atomic_store_n(&thread->torch_thread, host.thread(), __ATOMIC_RELAXED);
    __atomic_store_n(&thread->asking, node, __ATOMIC_RELEASE);
}

void collectives_node_begins(Thread *thread)
{
    if (thread->asking == NULL || !is_listening())
        return;
    pthread_mutex_lock(&lock);
    note_all(thread, thread->asking);
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&thread->asking, NULL, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- an operation begins */

/* The communicator whose operation begins on this thread; NULL if that is ambiguous. */
static Communicator *communicator_here(uint64_t asker)
{
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    for (unsigned i = 0; i < owner_count; i++)
        if (owners[i].thread == thread)
            return owners[i].communicator;
    Communicator *found = NULL;
    for (unsigned i = 0; i < communicator_count; i++) {
        uint64_t asked = host.asked(communicators[i]->group);
        if (asked == UINT64_MAX || asked <= communicators[i]->begun)
            continue;
        if (found != NULL)
            return NULL; /* more than one candidate */
        found = communicators[i];
    }
    if (found != NULL && host.thread() != asker && owner_count < OWNERS)
        owners[owner_count++] = (Owner){thread, found};
    return found;
}

/* When and where the operation was issued. Point-to-point operations begin immediately. */
static Ask ask_of(Communicator *communicator, uint64_t asker, uint64_t now, int is_pair)
{
    if (is_pair || communicator->first == communicator->last)
        note_asked(communicator, cause_of(asker), now);
    communicator->begun++;
    if (communicator->first == communicator->last)
        return (Ask){now, cause_of(asker)};
    return communicator->asks[(is_pair ? --communicator->last : communicator->first++) % ASKS];
}

static int operation_place(const char *name)
{
    unsigned i = 0;
    while (i < operation_count && strncmp(operations[i].name, name, sizeof operations->name - 1) != 0)
        i++;
    if (i == OPERATIONS)
        return -1;
    if (i == operation_count) {
        snprintf(operations[i].name, sizeof operations[i].name, "%s", name);
        operation_count++;
    }
    return (int)i;
}

static int is_sum_of(const void *entry, const void *wanted)
{
    const CollectiveSum *one = entry, *other = wanted;
    return one->communicator == other->communicator && one->operation == other->operation &&
           one->cause == other->cause;
}

static CollectiveSum *sum_of(uint32_t communicator, uint32_t operation, Node *cause)
{
    CollectiveSum wanted = {.communicator = communicator, .operation = operation, .cause = cause};
    uint64_t hash =
        table_hash(((uint64_t)communicator << 32 | operation) ^ (uint64_t)cause * 31);
    CollectiveSum *sum = table_find(&sums, hash, is_sum_of, &wanted);
    if (sum != NULL || (sum = stack_pop(&free_sums)) == NULL)
        return sum;
    *sum = wanted;
    return table_put(&sums, hash, sum) == 0 ? sum : NULL;
}

static int is_kept(const CommunicatorRecord *communicator, uint64_t number)
{
    return (number - 1) / COLLECTIVES_TOGETHER % communicator->stride == 0;
}

/* Drop every second run of those kept so far. */
static void thin(Communicator *communicator)
{
    size_t left = 0;
    if ((communicator->record->begun - 1) / COLLECTIVES_TOGETHER < communicator->record->stride)
        return; /* no complete run to drop yet */
    communicator->record->stride *= 2;
    for (size_t i = 0; i < records.count; i++) {
        CollectiveRecord *record = records.items[i];
        int goes = record->communicator == communicator->record->place && record->ended != 0 &&
                   !is_kept(communicator->record, record->number);
        if (goes && stack_push(&free_records, record) == 0) {
            record->is_used = 0;
            communicator->kept--;
        } else
            records.items[left++] = record;
    }
    records.count = left;
}

static int has_place_in_step(const Communicator *communicator)
{
    uint64_t most = communicator->of != NULL ? COLLECTIVES_A_STEP / 2 : COLLECTIVES_A_STEP;
    if (step_then != steps_ended) {
        step_then = steps_ended;
        kept_in_step = 0;
    }
    if (steps_ended == 0)
        return 1;
    return kept_in_step < most && ++kept_in_step;
}

static CollectiveRecord *record_new(Communicator *communicator)
{
    uint64_t number = communicator->record->begun;
    if (communicator->kept >= COLLECTIVES_AT_MOST)
        thin(communicator);
    if (!is_kept(communicator->record, number) || !has_place_in_step(communicator))
        return NULL;
    /* Collectives still running are kept, however many there are. */
    int is_full = communicator->kept >= COLLECTIVES_AT_MOST;
    CollectiveRecord *record = is_full ? NULL : stack_pop(&free_records);
    if (record == NULL || stack_push(&records, record) != 0) {
        without_room++;
        return NULL;
    }
    communicator->kept++;
    *record = (CollectiveRecord){.communicator = communicator->record->place, .number = number};
    return record;
}

static int is_between_two(const char *name)
{
    const char *what = strchr(name, ':');
    return what != NULL && (strncmp(what + 1, "send", 4) == 0 || strncmp(what + 1, "recv", 4) == 0);
}

/* The pair of the point-to-point operation that begins on this thread; NULL if it is unknown, or so
 * is its number. */
static Communicator *pair_here(const char *name)
{
    int sends = strncmp(strchr(name, ':') + 1, "send", 4) == 0;
    int is_known = issued.is_known && issued.generation == generation;
    Communicator *pair = is_known ? issued.pair : NULL;
    issued.is_known = 0;
    has_lost[sends] |= !is_known;
    return pair != NULL && pair->sends == sends && !has_lost[sends] ? pair : NULL;
}

/* `is_alone`: it is recorded by itself, too. */
static void operation_keep(Operation *operation, Communicator *communicator, int place, Ask ask,
                           uint64_t bytes, int is_alone)
{
    CollectiveSum *sum = sum_of((uint32_t)communicator->record->place, (uint32_t)place, ask.cause);
    if ((operation->sum = sum) != NULL) {
        sum->count++;
        if (bytes == COLLECTIVE_BYTES_UNKNOWN)
            sum->unsized++;
        else
            sum->bytes += bytes;
    } else
        without_room++;
    if (!is_alone)
        return;
    communicator->record->begun++;
    CollectiveRecord *record = operation->record = record_new(communicator);
    if (record != NULL) {
        record->operation = (uint32_t)place;
        record->bytes = bytes;
        record->asked = ask.ticks;
        record->begun = operation->begun;
        record->cause = ask.cause;
        __atomic_store_n(&record->is_used, 1, __ATOMIC_RELEASE); /* the record is complete */
    }
}

/* `pair`: of a point-to-point operation; NULL: it is not recorded by itself. */
static void operation_note(Operation *operation, Communicator *communicator, Communicator *pair,
                           const char *name, uint64_t asker, uint64_t bytes)
{
    uint64_t now = operation->begun = clock_ticks();
    int is_pair = is_between_two(name);
    Ask ask = ask_of(communicator, asker, now, is_pair);
    char text[sizeof operations->name];
    const char *what = strchr(name, ':') + 1;
    if (pair != NULL && !issued.is_waited_for) {
        snprintf(text, sizeof text, "%.*si%s", (int)(what - name), name, what);
        name = text;
    }
    int place = operation_place(name);
    if (pair != NULL) {
        communicator = pair;
        ask.ticks = issued.ticks;
    }
    if (place >= 0)
        operation_keep(operation, communicator, place, ask, bytes, !is_pair || pair != NULL);
}

static void *operation_begins(const char *name, uint64_t asker, uint64_t bytes)
{
    Operation *operation = NULL;
    int is_here = is_measured();
    pthread_mutex_lock(&lock);
    if (is_here && !is_over && is_listening()) {
        Communicator *pair = is_between_two(name) ? pair_here(name) : NULL;
        Communicator *communicator = communicator_here(asker);
        operation = communicator != NULL ? calloc(1, sizeof *operation) : NULL;
        if (operation != NULL) {
            operation->generation = generation;
            operation_note(operation, communicator, pair, name, asker, bytes);
        } else
            without_room++;
    } else if (is_between_two(name))
        has_lost[0] = has_lost[1] = 1;
    pthread_mutex_unlock(&lock);
    return operation;
}

static void operation_ends(void *given)
{
    Operation *operation = given;
    uint64_t now = clock_ticks();
    pthread_mutex_lock(&lock);
    if (operation->generation == generation && !is_over) {
        uint64_t took = now - operation->begun;
        CollectiveSum *sum = operation->sum;
        if (sum != NULL) {
            sum->ended++;
            sum->ticks += took;
            sum->longest = took > sum->longest ? took : sum->longest;
        }
        if (operation->record != NULL)
            __atomic_store_n(&operation->record->ended, now, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    free(operation);
}

/* ---------------------------------------------------------------- groups */

/* Append a range such as `0-3` to a list of ranks, or "..." if it does not fit. */
static void ranks_add(char *ranks, size_t size, int from, int to)
{
    size_t used = strlen(ranks), room = size - used;
    const char *comma = used > 0 ? "," : "";
    if (room < 32)
        snprintf(ranks + used, room, "%s", strstr(ranks, "...") ? "" : ",...");
    else if (from == to)
        snprintf(ranks + used, room, "%s%d", comma, from);
    else
        snprintf(ranks + used, room, "%s%d-%d", comma, from, to);
}

void collectives_list(const int *ranks, size_t count, char *text, size_t size)
{
    *text = 0;
    for (size_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && ranks[next] == ranks[next - 1] + 1;)
            next++;
        ranks_add(text, size, ranks[first], ranks[next - 1]);
    }
}

static void ranks_write(PyObject *ranks, CommunicatorRecord *record)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, count = 0;
    int *numbers = calloc((size_t)PyDict_Size(ranks) + 1, sizeof *numbers);
    while (numbers != NULL && PyDict_Next(ranks, &at, &key, &value))
        numbers[count++] = PyLong_CheckExact(key) ? (int)PyLong_AsLong(key) : -1;
    if (numbers != NULL)
        collectives_list(numbers, (size_t)count, record->ranks, sizeof record->ranks);
    record->size = (uint64_t)count;
    free(numbers);
}

static Communicator *communicator_named(const char *name)
{
    for (unsigned i = communicator_count; i-- > 0;)
        if (strcmp(communicators[i]->record->name, name) == 0)
            return communicators[i];
    return NULL;
}

/* A communicator with its record in the part; NULL if there is no room. */
static Communicator *communicator_made(const char *name, uint64_t place)
{
    Communicator *communicator = calloc(1, sizeof *communicator);
    Block *block = communicator == NULL
                       ? NULL
                       : part_block(part, BLOCK_COMMUNICATOR, 0, sizeof(CommunicatorRecord));
    if (block == NULL) {
        free(communicator);
        return NULL;
    }
    communicator->record = (CommunicatorRecord *)(block + 1);
    communicator->record->stride = 1;
    communicator->record->place = place;
    snprintf(communicator->record->name, sizeof communicator->record->name, "%s", name);
    return communicator;
}

/* The communicator that records what is sent to a rank, or received from it; NULL if there is no room. */
static Communicator *pair_named(const char *name, const Communicator *of, const PairCall *call)
{
    for (unsigned i = 0; i < pair_count; i++)
        if (strcmp(pairs[i]->record->name, name) == 0)
            return pairs[i]->of == of ? pairs[i] : NULL;
    Communicator *pair =
        pair_count < PAIRS ? communicator_made(name, COMMUNICATORS + pair_count) : NULL;
    if (pair == NULL)
        return NULL;
    pair->of = of;
    pair->sends = call->sends;
    pair->record->size = 2;
    snprintf(pair->record->ranks, sizeof pair->record->ranks, "%ld", call->peer);
    pairs[pair_count++] = pair;
    return pair;
}

void collectives_pair(const PairCall *call)
{
    char name[sizeof((CommunicatorRecord *)NULL)->name], tag[24] = "";
    issued.is_known = 0;
    issued.ticks = clock_ticks(); /* the backend reports a send after it has begun */
    if (!is_listening() || call->group == NULL || call->peer < 0 || call->tag < 0)
        return;
    if (call->tag > 0)
        snprintf(tag, sizeof tag, ":%ld", call->tag);
    int length = snprintf(name, sizeof name, "%s%c%ld%s", call->group, call->sends ? '>' : '<',
                          call->peer, tag);
    pthread_mutex_lock(&lock);
    Communicator *of = communicator_named(call->group);
    if (of != NULL) {
        issued.pair = (size_t)length < sizeof name ? pair_named(name, of, call) : NULL;
        issued.generation = generation;
        issued.is_known = 1;
        issued.is_waited_for = call->is_waited_for;
    }
    pthread_mutex_unlock(&lock);
}

void collectives_pair_over(void) { issued.is_known = 0; }

/* The communicator of a new group of this name; a previous group of the same name has released
 * it. */
static Communicator *communicator_new(const char *name)
{
    int group = communicator_count < COMMUNICATORS ? host.group(name) : -1;
    uint64_t asked = group >= 0 ? host.asked(group) : UINT64_MAX;
    Communicator *communicator =
        asked != UINT64_MAX ? communicator_made(name, communicator_count) : NULL;
    if (communicator == NULL)
        return NULL;
    communicator->group = group;
    communicator->asked = communicator->begun = communicator->record->begun = asked;
    communicators[communicator_count] = communicator;
    __atomic_store_n(&communicator_count, communicator_count + 1, __ATOMIC_RELEASE);
    return communicator;
}

/* If the group of this name was destroyed, rename its record, so that a new group can use the
 * name. */
static void release_name(Communicator *communicator)
{
    char *name = communicator->record->name;
    size_t length = strlen(name);
    uint64_t asked = host.asked(communicator->group);
    if (asked == UINT64_MAX || asked < communicator->asked) /* gone, or another one in its place */
        snprintf(name + length, sizeof communicator->record->name - length, "#%llu",
                 (unsigned long long)communicator->record->place);
}

static void group_look(const char *name, PyObject *ranks)
{
    Communicator *communicator = communicator_named(name);
    if (communicator != NULL)
        release_name(communicator);
    pthread_mutex_lock(&lock);
    communicator = communicator_named(name);
    if (communicator == NULL)
        communicator = communicator_new(name);
    if (communicator != NULL && communicator->record->size == 0 && ranks != NULL &&
        PyDict_Check(ranks))
        ranks_write(ranks, communicator->record);
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- PyTorch */

static const char *library_begin(void)
{
    const char *problem = NULL;
    CollectivesEntry *begin = (CollectivesEntry *)library_entry(collectives_library, COLLECTIVES_ENTRY, &problem);
    if (begin == NULL)
        return problem;
    host = (CollectivesHost){
        .version = COLLECTIVES_HOST_VERSION, .begins = operation_begins, .ends = operation_ends};
    return begin(&host);
}

/* Whether there is room in the part. Needs the GIL. */
static int has_operations(void)
{
    pthread_mutex_lock(&lock);
    if (held_generation != generation)
        forget();
    if (operations == NULL) {
        Block *block = part_block(part, BLOCK_OPERATIONS, 0, OPERATIONS * sizeof *operations);
        operations = block != NULL ? (OperationRecord *)(block + 1) : NULL;
        make_room();
    }
    pthread_mutex_unlock(&lock);
    return operations != NULL;
}

static int is_ready(void)
{
    static int works;
    if (collectives_library == NULL || !is_measured())
        return 0;
    if (!is_tried) {
        is_tried = 1;
        const char *problem = library_begin();
        works = problem == NULL;
        if (problem != NULL) {
            char text[512];
            snprintf(text, sizeof text, "collectives are not recorded: %s", problem);
            metadata_write("taupy.health.collectives", text);
        }
    }
    if (!works)
        return 0;
    return has_operations();
}

/* A global variable of PyTorch's module: borrowed, or NULL. */
static PyObject *global_of(const char *name)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, like all references below */
    PyObject *module =
        modules ? PyDict_GetItemString(modules, "torch.distributed.distributed_c10d") : NULL;
    return module != NULL && PyModule_Check(module)
               ? PyDict_GetItemString(PyModule_GetDict(module), name)
               : NULL;
}

/* The same for a dictionary. */
static PyObject *table_of(const char *name)
{
    PyObject *table = global_of(name);
    return table != NULL && PyDict_Check(table) ? table : NULL;
}

PyObject *collectives_default_group(void)
{
    PyObject *world = global_of("_world");
    PyObject *group = world != NULL ? PyObject_GetAttrString(world, "_default_pg") : NULL;
    PyErr_Clear();
    return group;
}

PyObject *collectives_group_fact(const char *name, PyObject *group)
{
    PyObject *table = group != NULL ? table_of(name) : NULL;
    return table != NULL ? PyDict_GetItem(table, group) : NULL;
}

void collectives_groups(void)
{
    PyObject *names = is_ready() ? table_of("_pg_names") : NULL, *ranks = table_of("_pg_group_ranks");
    PyObject *group, *name;
    Py_ssize_t at = 0;
    while (names != NULL && PyDict_Next(names, &at, &group, &name)) {
        const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        if (text != NULL)
            group_look(text, ranks != NULL ? PyDict_GetItem(ranks, group) : NULL);
    }
    PyErr_Clear();
}

/* ---------------------------------------------------------------- groups that are called */

/* Their places come after those of PyTorch's groups and of pairs. */
static Communicator *called_named(const CalledGroup *group)
{
    for (unsigned i = 0; i < called_count; i++)
        if (strcmp(called[i]->record->name, group->name) == 0)
            return called[i];
    Communicator *communicator =
        called_count < CALLED ? communicator_made(group->name, COMMUNICATORS + PAIRS + called_count)
                              : NULL;
    if (communicator == NULL)
        return NULL;
    communicator->record->size = group->size;
    memcpy(communicator->record->ranks, group->ranks, sizeof group->ranks);
    return called[called_count++] = communicator;
}

void *collectives_call_begins(Thread *thread, CalledGroup *group, const char *name, uint64_t bytes)
{
    uint64_t before = group->begun++;
    if (!has_operations())
        return NULL;
    Operation *operation = calloc(1, sizeof *operation);
    pthread_mutex_lock(&lock);
    Communicator *communicator = operation != NULL && !is_over ? called_named(group) : NULL;
    int place = communicator != NULL ? operation_place(name) : -1;
    if (place >= 0) {
        Node *cause = visible(thread);
        make_room();
        calls++;
        note_all(thread, cause);
        communicator->record->begun = before;
        operation->generation = generation;
        operation->begun = clock_ticks();
        operation_keep(operation, communicator, place, (Ask){operation->begun, cause}, bytes, 1);
    } else {
        without_room += !is_over;
        free(operation);
        operation = NULL;
    }
    pthread_mutex_unlock(&lock);
    return operation;
}

/* What has failed may not have been done: no other rank's collective of its number is the same. */
void collectives_call_ends(void *given, int has_failed)
{
    Operation *operation = given;
    CollectiveRecord *record = operation->generation == generation ? operation->record : NULL;
    operation_ends(operation);
    if (has_failed && record != NULL)
        record->is_used = 0;
}

void collectives_calls_unsure(const char *name, long rank)
{
    size_t length = strlen(name);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < called_count && held_generation == generation; i++) {
        CommunicatorRecord *record = called[i]->record;
        size_t used = strlen(record->name);
        if (strncmp(record->name, name, length) == 0 &&
            (record->name[length] == 0 || record->name[length] == '#'))
            snprintf(record->name + used, sizeof record->name - used, "@%ld", rank);
    }
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- finish and fork */

static void on_finish(int ends)
{
    char text[200];
    if (held_generation != generation || communicator_count + called_count + without_room == 0)
        return;
    pthread_mutex_lock(&lock);
    is_over |= ends;
    pthread_mutex_unlock(&lock);
    if (without_room > 0) {
        snprintf(text, sizeof text,
                 "%llu collectives were not recorded, or in sums only: there was no room, or their "
                 "group could not be told",
                 (unsigned long long)without_room);
        metadata_write("taupy.health.collectives", text);
    }
    if (stretches_left_out() > 0) {
        snprintf(text, sizeof text,
                 "what ran between collectives is listed for some steps only (without steps, for "
                 "the first part of the run): %llu stretches more had no room",
                 (unsigned long long)stretches_left_out());
        metadata_write("taupy.health.stretches", text);
    }
}

static void on_fork(const Thread *thread)
{
    (void)thread;
    pthread_mutex_init(&lock, NULL); /* its owner does not exist in this process */
    communicator_count = pair_count = called_count = 0; /* nor do the backends' threads */
    issued.is_known = 0;
}

Listener collectives_listener = {.on_finish = on_finish, .on_fork = on_fork};
