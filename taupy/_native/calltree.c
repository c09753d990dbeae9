/* Growing the call tree; see calltree.h. */
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
pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;

static Block *spare[6]; /* blocks of nodes that are free again, by size; in the part `spare_of` */
static uint64_t spare_of;
#define FEWEST_NODES 31 /* of a block; the next size has twice as many, and one */
#define MANY_NODES 1000

static Block **spare_blocks(uint64_t count)
{
    unsigned size = 0;
    if (spare_of != generation) {
        memset(spare, 0, sizeof spare);
        spare_of = generation;
    }
    while (count > FEWEST_NODES && size + 1 < sizeof spare / sizeof *spare) {
        count /= 2;
        size++;
    }
    return &spare[size];
}

/* A block of so many nodes for the thread; NULL if memory runs out. */
static Block *block_of_nodes(Thread *thread, uint64_t count)
{
    Block **first = spare_blocks(count), *block = *first;
    if (block == NULL)
        return part_block(part, BLOCK_NODES, (uint32_t)thread->index,
                          count * node_stride * sizeof(Node));
    *first = (Block *)(uintptr_t)block_before(block);
    block->unused[0] = (uint64_t)(uintptr_t)thread->blocks;
    block->thread = (uint32_t)thread->index;
    __atomic_store_n(&block->kind, BLOCK_NODES, __ATOMIC_RELEASE);
    return block;
}

void nodes_free(Thread *thread)
{
    char *end = (char *)thread->free_node; /* the others are full */
    for (Block *block = (Block *)(uintptr_t)thread->blocks, *before; block != NULL; block = before) {
        before = (Block *)(uintptr_t)block_before(block);
        end = end != NULL ? end : (char *)block + block->size;
        uint64_t count = (block->size - sizeof *block) / (node_stride * sizeof(Node));
        __atomic_store_n(&block->kind, BLOCK_REST, __ATOMIC_RELEASE);
        memset(block + 1, 0, (size_t)(end - (char *)(block + 1)));
        end = NULL;
        Block **first = spare_blocks(count);
        block->unused[0] = (uint64_t)(uintptr_t)*first;
        *first = block;
    }
    table_clear(&thread->nodes);
    thread->blocks = NULL;
    thread->free_node = NULL;
    thread->free_count = thread->block_count = thread->node_count = 0;
}

static int node_put(Thread *thread, Node *parent, const void *key, Node *node)
{
    return table_put(&thread->nodes, node_hash(parent, key), node);
}

static Thread *thread_hint; /* owner of the node looked up last; reset when threads are forgotten */

/* The owner of a node that is in a table. */
static Thread *thread_of(Node *node)
{
    /* A table look-up is immediate; climbing to the root is slow on deep call paths. */
    if (thread_hint != NULL && node_find(thread_hint, node->parent, node->key) == node)
        return thread_hint;
    while (node->parent != NULL)
        node = node->parent;
    return thread_hint = (Thread *)node; /* the root is its first member */
}

void node_rekey(Node *node, void *key)
{
    pthread_mutex_lock(&tree_lock);
    if (node->parent->flags & NODE_MANY) {
        Table *nodes = &thread_of(node)->nodes;
        table_remove(nodes, node_hash(node->parent, node->key), node);
        table_put(nodes, node_hash(node->parent, key), node);
    }
    node->key = key;
    pthread_mutex_unlock(&tree_lock);
}

/* Whether the two can be neighbours in a ring. */
static int are_near(const Node *node, const Node *other)
{
    return other - node >= -INT16_MAX && other - node <= INT16_MAX;
}

static int ring_count(const Node *parent)
{
    int count = 0;
    const Node *node = parent->last;
    do {
        count++;
        node += node->sibling;
    } while (node != parent->last && count < RING_AT_MOST);
    return count;
}

/* Insert the node after the last child. Returns 0 if it cannot be. */
static int ring_put(const Node *parent, Node *node)
{
    Node *last = parent->last, *next = last + last->sibling;
    if (last == &nowhere)
        return 1;
    if (!are_near(last, node) || !are_near(node, next) || ring_count(parent) == RING_AT_MOST)
        return 0;
    node->sibling = (int16_t)(next - node);
    last->sibling = (int16_t)(node - last);
    return 1;
}

/* Move all children from the ring into the table. Returns -1 if memory runs out. */
static int ring_to_table(Thread *thread, Node *parent)
{
    Node *node = parent->last;
    for (int i = ring_count(parent); i > 0; i--, node += node->sibling)
        if (node_put(thread, parent, node->key, node) != 0)
            return -1;
    __atomic_store_n(&parent->flags, parent->flags | NODE_MANY, __ATOMIC_RELAXED);
    return 0;
}

/* Make the node a child of `parent`. Returns -1 if memory runs out. */
static int child_put(Thread *thread, Node *parent, const void *key, Node *node)
{
    int is_in_ring = !(parent->flags & NODE_MANY);
    if (is_in_ring && ring_put(parent, node))
        return 0;
    if (is_in_ring && ring_to_table(thread, parent) != 0)
        return -1;
    return node_put(thread, parent, key, node);
}

Node *node_new(Thread *thread, Node *parent, void *key)
{
    if (callpath_count >= callpath_limit)
        return NULL;
    if (thread->free_count == 0) {
        /* Start with small blocks: a program may have thousands of short-lived threads. */
        uint64_t count = thread->block_count ? thread->block_count : FEWEST_NODES;
        Block *block = block_of_nodes(thread, count);
        if (block == NULL)
            return NULL;
        block->unused[0] = (uint64_t)(uintptr_t)thread->blocks;
        thread->blocks = block;
        thread->free_node = (Node *)(block + 1);
        thread->free_count = count;
        thread->block_count = count < MANY_NODES ? count * 2 + 1 : count;
    }
    Node *node = thread->free_node;
    if (child_put(thread, parent, key, node) != 0)
        return NULL;
    thread->free_node += node_stride;
    thread->free_count--;
    node->parent = parent;
    node->last = &nowhere;
    node->depth = parent->depth + 1;
    node->flags = parent->flags & NODE_BRIEF;
    node->key = key; /* written last: readers treat a node with a key as complete */
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
