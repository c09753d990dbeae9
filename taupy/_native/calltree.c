/* The tree's growth; what it is stands in calltree.h. */
#include "calltree.h"

PartHeader *part;
uint64_t generation = 1;
Thread *threads;
uint64_t thread_count;
__thread Thread *this_thread __attribute__((tls_model("initial-exec")));
Node nowhere;
uint64_t callpath_count, callpath_limit = 8u << 20;
uint64_t node_stride = 1;
pthread_mutex_t tree_lock = PTHREAD_MUTEX_INITIALIZER;

static int node_put(Thread *thread, Node *parent, const void *key, Node *node)
{
    return table_put(&thread->nodes, node_hash(parent, key), node);
}

static Thread *thread_hint; /* whose node was asked for last; NULL when threads are forgotten */

/* Of a node that is not an only child. */
static Thread *thread_of(Node *node)
{
    /* Its table tells at once; to climb to the root is long where call paths are deep. */
    if (thread_hint != NULL && node_find(thread_hint, node->parent, node->key) == node)
        return thread_hint;
    while (node->parent != NULL)
        node = node->parent;
    return thread_hint = (Thread *)node; /* the root is its first member */
}

void node_rekey(Node *node, void *key)
{
    pthread_mutex_lock(&tree_lock);
    if (node->parent->flags & NODE_FORKS) {
        Table *nodes = &thread_of(node)->nodes;
        table_remove(nodes, node_hash(node->parent, node->key), node);
        table_put(nodes, node_hash(node->parent, key), node);
    }
    node->key = key;
    pthread_mutex_unlock(&tree_lock);
}

Node *node_new(Thread *thread, Node *parent, void *key)
{
    if (callpath_count >= callpath_limit)
        return NULL;
    if (thread->free_count == 0) {
        /* Small first blocks, since a program may have thousands of short threads. */
        uint64_t count = thread->block_count ? thread->block_count : 31;
        Block *block = part_block(part, BLOCK_NODES, (uint32_t)thread->index,
                                  count * node_stride * sizeof(Node));
        if (block == NULL)
            return NULL;
        thread->free_node = (Node *)(block + 1);
        thread->free_count = count;
        thread->block_count = count < 1000 ? count * 2 + 1 : count;
    }
    Node *node = thread->free_node;
    if (parent->last != &nowhere) {
        if (!(parent->flags & NODE_FORKS)) {
            if (node_put(thread, parent, parent->last->key, parent->last) != 0)
                return NULL;
            parent->flags |= NODE_FORKS;
        }
        if (node_put(thread, parent, key, node) != 0)
            return NULL;
    }
    thread->free_node += node_stride;
    thread->free_count--;
    node->parent = parent;
    node->last = &nowhere;
    node->depth = parent->depth + 1;
    node->key = key; /* last: a reader takes a node with a key as whole */
    parent->last = node;
    thread->node_count++;
    callpath_count++;
    return node;
}

void threads_forget(void)
{
    this_thread = NULL;
    threads = thread_hint = NULL;
}
