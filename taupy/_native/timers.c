/* Named timers, looked up by (name, group), and the disabled groups. */
#include "timers.h"

#define NAMES_AT_MOST 4096

static uint64_t timers_count;
static PyObject *timer_keys; /* (name, group) or (name, group, inputs) -> key as an int */
static PyObject *disabled_groups;

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static NamedTimer *timer_new(const char *name, const char *group, const char *inputs)
{
    NamedTimer *timer = calloc(1, sizeof *timer); /* never freed: nodes hold its address */
    if (timer == NULL || (timer->name = strdup(name)) == NULL ||
        (timer->group = strdup(group)) == NULL ||
        (inputs != NULL && (timer->inputs = strdup(inputs)) == NULL))
        return NULL;
    if (strcmp(group, RECORD_FUNCTION_GROUP) == 0)
        timer->range = RANGE_RECORD_FUNCTION;
    else if (strcmp(group, NVTX_GROUP) == 0)
        timer->range = RANGE_NVTX;
    timer->brief = strcmp(group, STEP_GROUP) == 0;
    timer->import = strcmp(group, IMPORT_GROUP) == 0;
    timer->is_stamped = timer->brief || timer->import || begins_with(group, LAYER_GROUP) ||
                        begins_with(group, "PHASE") || strcmp(group, JIT_GROUP) == 0 ||
                        begins_with(group, "REGION") || begins_with(group, "TAUPY");
    timer->is_routine = strcmp(group, LAYER_GROUP) == 0 || strcmp(group, BACKWARD_GROUP) == 0 ||
                        begins_with(group, AUTOGRAD_GROUP) || strcmp(group, JIT_GROUP) == 0 ||
                        strcmp(group, OPERATOR_GROUP) == 0 ||
                        begins_with(group, COLLECTIVE_GROUP);
    if (strcmp(group, "REGION") == 0)
        timer->region = REGION_COUNTED;
    else if (timer->range == RANGE_RECORD_FUNCTION || strcmp(group, "PHASE") == 0)
        timer->region = REGION_PHASE;
    timers_count++;
    return timer;
}

static void *timer_key_with(const char *name, const char *group, const char *inputs)
{
    if (timer_keys == NULL && (timer_keys = PyDict_New()) == NULL)
        return NULL;
    PyObject *pair = inputs != NULL ? Py_BuildValue("sss", name, group, inputs)
                                    : Py_BuildValue("ss", name, group);
    PyObject *known = pair ? PyDict_GetItemWithError(timer_keys, pair) : NULL;
    void *key = known ? PyLong_AsVoidPtr(known) : NULL;
    if (pair != NULL && known == NULL && !PyErr_Occurred()) {
        NamedTimer *timer = timer_new(name, group, inputs);
        known = timer != NULL ? PyLong_FromVoidPtr((char *)timer + KEY_TIMER) : PyErr_NoMemory();
        if (known != NULL && PyDict_SetItem(timer_keys, pair, known) == 0)
            key = (char *)timer + KEY_TIMER;
        Py_XDECREF(known);
    }
    Py_XDECREF(pair);
    return key;
}

void *timer_key(const char *name, const char *group) { return timer_key_with(name, group, NULL); }

void *timer_key_among(unsigned *names, const char *name, const char *others, const char *group)
{
    uint64_t before = timers_count;
    void *key = timer_key(*names < NAMES_AT_MOST ? name : others, group);
    *names += timers_count > before;
    return key;
}

typedef struct KnownTimer {
    const char *name;
    uint64_t inputs;
    void *key;
} KnownTimer;

static int is_timer(const void *entry, const void *wanted)
{
    const KnownTimer *known = entry, *other = wanted;
    return known->inputs == other->inputs && strcmp(known->name, other->name) == 0;
}

void *timer_known(const NamedTimers *timers, const char *name, uint64_t inputs)
{
    KnownTimer wanted = {name, inputs, NULL};
    const KnownTimer *known =
        table_find(&timers->entries, table_hash_text(inputs, name), is_timer, &wanted);
    return known != NULL ? known->key : NULL;
}

void *timer_named(NamedTimers *timers, const char *name, uint64_t inputs, const char *text)
{
    size_t prefix = timers->prefix != NULL ? strlen(timers->prefix) : 0;
    pthread_mutex_lock(&tree_lock);
    void *key = timer_known(timers, name, inputs);
    pthread_mutex_unlock(&tree_lock);
    if (key != NULL)
        return key;
    KnownTimer *more = calloc(1, sizeof *more);
    const char *shown =
        prefix && strncmp(name, timers->prefix, prefix) == 0 ? name + prefix : name;
    key = text != NULL ? timer_key_with(shown, timers->group, text)
                       : timer_key_among(&timers->names, shown, timers->others, timers->group);
    if (more == NULL || key == NULL || (more->name = strdup(name)) == NULL) {
        free(more);
        return key;
    }
    more->inputs = inputs;
    more->key = key;
    pthread_mutex_lock(&tree_lock);
    table_put(&timers->entries, table_hash_text(inputs, name), more);
    pthread_mutex_unlock(&tree_lock);
    return key;
}

int group_disabled(const char *group)
{
    if (disabled_groups == NULL)
        return 0;
    PyObject *name = PyUnicode_FromString(group);
    int found = name ? PySet_Contains(disabled_groups, name) : 0;
    Py_XDECREF(name);
    return found > 0;
}

int group_enable(const char *group, int enabled)
{
    if (disabled_groups == NULL && (disabled_groups = PySet_New(NULL)) == NULL)
        return -1;
    PyObject *name = PyUnicode_FromString(group);
    int failed = name == NULL || (enabled ? PySet_Discard(disabled_groups, name)
                                          : PySet_Add(disabled_groups, name)) < 0;
    Py_XDECREF(name);
    return failed ? -1 : 0;
}
