/* Exact lines: how often a line of a chosen routine begins, and how long it takes.
 *
 * The interpreter tells when a line begins (hooks_312.c: LINE events of the chosen code objects
 * only; hooks_311.c: the trace function, in their frames only). A line lasts until the next one
 * begins in that frame, or the frame is left. Entry and return of a call do nothing for it: the
 * node's own clock, `inclusive` and `t0`, says how much of the routine's time has passed, and what
 * has passed since the last line began is that line's. The end of the last line of a call is
 * therefore noted when the routine is called again, or by the reader (`record/exact_lines.py`),
 * which knows the node's whole time.
 *
 * `own` leaves out other routines of the program that were called, and imports: these have lines,
 * or rows, of their own. `inclusive` has everything, of the outermost call of a recursion. */
#ifndef TAUPY_LINE_EVENTS_H
#define TAUPY_LINE_EVENTS_H

#include "listeners.h"

/* In the part, of a thread: the lines of one routine, from its first one on. */
typedef struct LineRecord {
    uint64_t count;     /* times that it has begun */
    uint64_t own;       /* ticks, without other routines of the program */
    uint64_t inclusive; /* ticks, with all that it calls */
} LineRecord;

typedef struct LineSums {
    uint64_t key;    /* of the routine's nodes */
    uint64_t first;  /* number of the first line */
    uint64_t number; /* of records; written last */
    LineRecord lines[];
} LineSums;

/* In the part, of a thread: one call path of such a routine. */
typedef struct LineNode {
    const Node *node; /* written last */
    LineSums *sums;
    int64_t open;            /* the line that began last, counted from the first; -1: none */
    uint64_t own, inclusive; /* ticks of the node that are in the sums */
    uint32_t is_inner;       /* in a recursion: the outermost call has its time, too */
    /* private to the process, meaningless to a reader */
    uint32_t goes_on; /* it was resumed in this line */
    uint64_t calls; /* of the node, when its line began */
    struct LineApart *apart;
} LineNode;

/* In the part, of a thread: a call path below it whose time is not that of its lines, a routine of
 * the program or an import. */
typedef struct LineApart {
    const Node *node; /* written last */
    const Node *caller; /* of the LineNode */
    struct LineApart *next; /* private to the process */
    uint64_t unused;
} LineApart;

extern int lines_used; /* some routine may have exact lines */

/* `routines`: PATH:NAME of those with exact lines. `of_all`: instead, all routines of the program that
 * are recorded. The list ends with NULL, or is NULL. */
void lines_start(char **routines, int of_all);
static inline int lines_has(const void *code)
{
    const Routine *routine = routine_find(code);
    return routine != NULL && routine->has_lines;
}
/* A line of the innermost frame begins; its code object has lines. */
void line_begins(void *code, int line);
/* The innermost frame, of a generator or coroutine, goes on in this line. */
void line_resumes(void *code, int line);

extern RoutineWatch lines_watch;
extern Listener lines_listener;

#endif
