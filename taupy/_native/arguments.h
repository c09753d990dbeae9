/* With which arguments the program's routines are called: how many of the calls that are looked at
 * have arguments that an earlier one had.
 *
 * growth.c looks, when it looks at open call paths. Arguments are compared if all of them are None,
 * bool, int, float, str, bytes, or tuples of these, exactly of these types and short. They are read
 * where the interpreter keeps them: nothing of the program's is called, changed, or referred to
 * afterwards. A number of 64 bits, made of them and of the routine, stays in this process's memory,
 * to recognise them; only counts are in the part. */
#ifndef TAUPY_ARGUMENTS_H
#define TAUPY_ARGUMENTS_H

#include "routine.h"

/* In the part. */
typedef struct ArgumentCounts {
    uint64_t call;       /* the number of the call that was looked at last */
    uint64_t compared;   /* calls with arguments that are compared, */
    uint64_t different;  /* of which none looked at before in the thread had the same; */
    uint64_t others;     /* and calls with others */
} ArgumentCounts;

/* A frame that begins or ends, and is not the interpreter's running one (3.11); or NULL. */
extern const void *frame_apart;

/* The open frames, from the innermost one outwards. */
typedef struct OpenFrames {
    const void *frame; /* NULL: there are no more */
    int rest;          /* so many are gone through at most */
} OpenFrames;

OpenFrames open_frames(void);

/* Look at the arguments of an open call of `node`, whose frame is one of `frames`, which are gone
 * through up to it. `begins`: nothing of it has run. */
void arguments_look(OpenFrames *frames, const Thread *thread, const Node *node, Routine *routine,
                    int begins, ArgumentCounts *counts);
/* No call has been looked at. */
void arguments_forget(void);

#endif
