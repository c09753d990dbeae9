/* Naming modules; see layer_names.h. */
#include "layer_names.h"
#include "children_of.h"
#include "names.h"
#include "timers.h"

#define LINE 64      /* a cache line */
#define LAYER_SIZE ((sizeof(Layer) + LINE - 1) / LINE * LINE)
#define DEEPEST 200 /* depth limit of a walk */

static Table bound;  /* by module: the first layer that has it */
static Table places; /* non-root layers, by place */
static Layer *roots[LAYERS_AT_MOST];
static size_t root_count, layer_count;
static uint64_t walks;
static int has_plain_root; /* names below one of the roots have no prefix */

/* ---------------------------------------------------------------- places */

typedef struct Place {
    const Layer *above;
    PyObject *key;
} Place;

static uint64_t place_hash(const Layer *above, PyObject *key)
{
    return table_hash((uint64_t)above ^ (uint64_t)PyObject_Hash(key));
}

static int layer_is_at(const void *entry, const void *wanted)
{
    const Layer *layer = entry;
    const Place *place = wanted;
    return layer->above == place->above &&
           (layer->key == place->key || PyUnicode_Compare(layer->key, place->key) == 0);
}

static Layer *layer_new(Layer *above, PyObject *key)
{
    Layer *layer = layer_count < LAYERS_AT_MOST ? aligned_alloc(LINE, LAYER_SIZE) : NULL;
    if (layer == NULL)
        return NULL;
    memset(layer, 0, sizeof *layer);
    layer_count++;
    layer->above = above;
    layer->key = Py_XNewRef(key);
    return layer;
}

/* The layer at a place; NULL if there are too many. */
static Layer *layer_at(Layer *above, PyObject *key)
{
    Place place = {above, key};
    uint64_t hash = place_hash(above, key);
    Layer *layer = table_find(&places, hash, layer_is_at, &place);
    if (layer == NULL && (layer = layer_new(above, key)) != NULL)
        table_put(&places, hash, layer);
    return layer;
}

/* ---------------------------------------------------------------- modules */

static int layer_has(const void *entry, const void *module)
{
    return ((const Layer *)entry)->module == module;
}

static uint64_t module_hash(const void *module) { return table_hash((uint64_t)module >> 4); }

static Layer *layers_with(const void *module)
{
    return table_find(&bound, module_hash(module), layer_has, module);
}

static void unbind(Layer *layer)
{
    uint64_t hash = module_hash(layer->module);
    Layer *first = layers_with(layer->module);
    if (first == layer) {
        table_remove(&bound, hash, layer);
        if (layer->same != NULL)
            table_put(&bound, hash, layer->same);
    } else {
        while (first != NULL && first->same != layer)
            first = first->same;
        if (first != NULL)
            first->same = layer->same;
    }
    layer->module = NULL;
    layer->same = NULL;
}

/* Record that this module is now at the layer's place. */
static void bind(Layer *layer, PyObject *module)
{
    if (layer->module != module) {
        if (layer->module != NULL)
            unbind(layer);
        Layer *first = layers_with(module);
        layer->module = module;
        if (first != NULL) {
            layer->same = first->same;
            first->same = layer;
        } else
            table_put(&bound, module_hash(module), layer);
    }
    if (layer->type != Py_TYPE(module)) {
        layer->type = Py_TYPE(module);
        layer->timer = NULL;
    }
}

static int is_met(const PyObject *module, uint64_t walk)
{
    const Layer *layer = layers_with(module);
    while (layer != NULL && layer->walk != walk)
        layer = layer->same;
    return layer != NULL;
}

/* Bind all modules below one; a shared module goes to the first place it is found at. */
static void walk_below(Layer *layer, PyObject *module, int depth)
{
    Children children = children_of(module);
    PyObject *key, *child;
    Py_ssize_t at = 0;
    while (children_next(children, &at, &key, &child)) {
        if (child == Py_None || PyUnicode_Check(child) || is_met(child, walks))
            continue;
        Layer *below = layer_at(layer, key);
        if (below == NULL)
            return;
        bind(below, child);
        below->walk = walks;
        if (depth < DEEPEST)
            walk_below(below, child, depth + 1);
    }
}

static void walk(Layer *layer, PyObject *module)
{
    layer->walk = ++walks;
    walk_below(layer, module, 0);
}

/* The module now at the layer's place, below a running layer. Borrowed, or NULL. */
static PyObject *module_at(const Layer *layer, const OpenLayer *open)
{
    if (layer == open->layer)
        return open->module;
    PyObject *above = layer->above == NULL || layer->is_stray ? NULL : module_at(layer->above, open);
    return above != NULL ? children_get(children_of(above), layer->key, layer->module) : NULL;
}

/* Whether the module last seen at this place is still there. For strays, only the class can be
 * compared. */
static int is_at(const Layer *layer, const PyObject *module, const OpenLayer *open, int is_inner)
{
    if (layer->type != Py_TYPE(module))
        return 0;
    if (layer->is_stray)
        return is_inner && layer->above == open->layer;
    return module_at(layer, open) == module;
}

/* The layer of a known module, searching below the running layers, innermost first. */
static Layer *layer_below(PyObject *module, const OpenLayer *open, size_t count)
{
    for (size_t i = count; i-- > 0;)
        for (Layer *layer = layers_with(module); layer != NULL; layer = layer->same)
            if (is_at(layer, module, &open[i], i + 1 == count))
                return layer;
    return NULL;
}

static int is_below_stray(const Layer *layer)
{
    while (layer != NULL && !layer->is_stray)
        layer = layer->above;
    return layer != NULL;
}

/* The layer of a module that no other module calls, root or not: only its class can be compared. */
static Layer *layer_alone(const PyObject *module)
{
    Layer *found = NULL;
    for (Layer *layer = layers_with(module); layer != NULL; layer = layer->same)
        if (layer->type == Py_TYPE(module) && !is_below_stray(layer) &&
            (found == NULL || layer->above == NULL))
            found = layer;
    return found;
}

/* ---------------------------------------------------------------- names */

static const char *class_of(const PyTypeObject *type)
{
    const char *dot = strrchr(type->tp_name, '.');
    return dot != NULL ? dot + 1 : type->tp_name;
}

static char *joined(const char *first, const char *second, const char *third)
{
    char *text = malloc(strlen(first) + strlen(second) + strlen(third) + 1);
    if (text != NULL)
        strcat(strcat(strcpy(text, first), second), third);
    return text;
}

static const char *name_of(Layer *layer)
{
    if (layer->name != NULL)
        return layer->name;
    char *key = text_of(layer->key);
    if (key != NULL && layer->above->above == NULL)
        layer->name = joined(layer->above->prefix, key, "");
    else if (key != NULL && name_of(layer->above) != NULL)
        layer->name = joined(layer->above->name, ".", key);
    free(key);
    return layer->name;
}

/* Key of the timer with this name and class. */
static void *timer_of(const char *begin, const Layer *layer, const char *group)
{
    char *name = joined(begin, layer->name, " [");
    char *text = name != NULL ? joined(name, class_of(layer->type), "]") : NULL;
    void *timer = text != NULL ? timer_key(text, group) : NULL;
    free(text);
    free(name);
    return timer;
}

static Layer *named(Layer *layer, const char *group)
{
    if (layer != NULL && layer->timer == NULL && name_of(layer) != NULL) {
        layer->timer = timer_of("", layer, group);
        layer->backward = timer_of("backward of ", layer, BACKWARD_GROUP);
    }
    return layer != NULL && layer->timer != NULL ? layer : NULL;
}

/* ---------------------------------------------------------------- roots */

/* Number of roots of this class; `last` is the newest. */
static int roots_of(const PyTypeObject *type, Layer **last)
{
    int count = 0;
    *last = NULL;
    for (size_t i = 0; i < root_count; i++)
        if (strcmp(class_of(roots[i]->type), class_of(type)) == 0) {
            count++;
            *last = roots[i];
        }
    return count;
}

static Layer *root_new(PyObject *module, int number)
{
    Layer *root = layer_new(NULL, NULL);
    PyObject *own = own_name(module);
    char text[32] = "";
    if (root == NULL)
        return NULL;
    if (number >= ROOTS_AT_MOST)
        strcpy(text, " (others)");
    else if (number > 0)
        snprintf(text, sizeof text, " (%d)", number + 1);
    if (own != NULL && number < ROOTS_AT_MOST)
        root->name = text_of(own);
    else
        root->name = joined(class_of(Py_TYPE(module)), text, "");
    roots[root_count++] = root;
    return root;
}

/* A module not called by any other gets a layer of its own, unless it has no submodules. */
static Layer *root_of(PyObject *module)
{
    int has_name = own_name(module) != NULL;
    int is_lone = !has_name && children_count(children_of(module)) == 0;
    Layer *last;
    int number = roots_of(Py_TYPE(module), &last);
    Layer *root = last;
    if (last == NULL || !(is_lone || number > ROOTS_AT_MOST))
        root = root_new(module, number);
    if (root == NULL || root->name == NULL)
        return NULL;
    bind(root, module);
    if (root->prefix == NULL) {
        root->prefix = is_lone || has_name || has_plain_root ? joined(root->name, ".", "") : "";
        has_plain_root |= !is_lone && !has_name;
    }
    if (!is_lone)
        walk(root, module);
    return root->prefix != NULL ? root : NULL;
}

/* ---------------------------------------------------------------- look-up */

/* A module created in `forward`, or stored where `_modules` does not reach: its class, within the
 * running layer. */
static Layer *stray_of(PyObject *module, const OpenLayer *open)
{
    PyObject *key = PyUnicode_FromFormat("<%s>", class_of(Py_TYPE(module)));
    Layer *layer = key != NULL ? layer_at(open->layer, key) : NULL;
    Py_XDECREF(key);
    if (layer != NULL) {
        layer->is_stray = 1;
        bind(layer, module);
    }
    return layer;
}

/* Fallback once there are too many layers. */
static Layer *folded(PyObject *module)
{
    static Table classes; /* Layer entries by type */
    uint64_t hash = module_hash(Py_TYPE(module));
    Layer *layer = table_find(&classes, hash, layer_has, Py_TYPE(module));
    if (layer != NULL || (layer = calloc(1, sizeof *layer)) == NULL)
        return layer;
    layer->module = layer->type = Py_TYPE(module);
    layer->name = joined("(other ", class_of(layer->type), ")");
    table_put(&classes, hash, layer);
    return layer;
}

static Layer *searched(PyObject *module, OpenLayer *open, size_t count)
{
    OpenLayer *inner = &open[count - 1];
    for (OpenLayer *at = inner;; at = open) {
        if (!at->is_searched && layer_count < LAYERS_AT_MOST) {
            at->is_searched = 1;
            walk(at->layer, at->module);
            Layer *layer = layer_below(module, open, count);
            if (layer != NULL)
                return layer;
        }
        if (at == open)
            break;
    }
    return stray_of(module, inner);
}

/* Prefetch the data of this layer and of the one that followed it last time: since their last
 * calls, the program's data has displaced them from the cache. */
static Layer *expected_next(Layer *layer)
{
    static Layer *previous;
    if (layer == NULL)
        return NULL;
    if (layer->timer != NULL)
        __builtin_prefetch(&((const NamedTimer *)KEY_POINTER(layer->timer))->facts);
    if (layer->next != NULL)
        __builtin_prefetch(layer->next);
    if (previous != NULL && previous->next != layer)
        previous->next = layer;
    return previous = layer;
}

Layer *layer_of(PyObject *module, OpenLayer *open, size_t count, const char *group)
{
    Layer *layer = layer_below(module, open, count);
    if (layer == NULL && count > 0)
        layer = searched(module, open, count);
    else if (layer == NULL && (layer = layer_alone(module)) == NULL)
        layer = root_of(module);
    PyErr_Clear();
    return expected_next(named(layer != NULL ? layer : folded(module), group));
}

static int is_called(const PyObject *module)
{
    const Layer *layer = layers_with(module);
    while (layer != NULL && layer->timer == NULL)
        layer = layer->same;
    return layer != NULL;
}

static void uncalled_below(PyObject *module, void (*tell)(void *, PyObject *), void *to, int depth)
{
    Children children = children_of(module);
    PyObject *key, *child;
    Py_ssize_t at = 0;
    while (children_next(children, &at, &key, &child)) {
        if (child == Py_None || PyUnicode_Check(child) || is_called(child))
            continue;
        tell(to, child);
        if (depth < DEEPEST)
            uncalled_below(child, tell, to, depth + 1);
    }
}

void layers_uncalled(PyObject *module, void (*tell)(void *to, PyObject *module), void *to)
{
    if (layer_count < LAYERS_AT_MOST) /* else the last call is unknown */
        uncalled_below(module, tell, to, 0);
    PyErr_Clear();
}
