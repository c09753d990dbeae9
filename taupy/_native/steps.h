/* Steps: iterations of training or validation, and how long each phase took in them.
 *
 * Steps are detected from what the training thread calls:
 *
 * - Work (fetching a batch, calling a module, a backward pass) that follows an optimizer step may
 *   belong to a new step, and does if the same optimizer steps again. Otherwise both belong to one
 *   step: a GAN steps two optimizers.
 * - If a batch is fetched, and modules were called on the previous one but there was no backward
 *   pass, that was a validation step.
 * - If the program or its framework marks steps explicitly, nothing else counts on that thread.
 *
 * Steps are rows in the part: see step_rows.h. What a thread used in a step is read where the step
 * begins and ends: see step_metrics.h. */
#ifndef TAUPY_STEPS_H
#define TAUPY_STEPS_H

#include "batches.h"
#include "listeners.h"
#include "step_rows.h"

enum StepPlace { STEP_NONE, STEP_INSIDE, STEP_OUTSIDE }; /* see steps_window.h */

/* First and last training step recorded in detail, counted from 1; 0: record all. */
typedef struct StepsWindow {
    uint64_t first, last;
} StepsWindow;

extern StepsWindow steps_window;
extern Listener steps_listener;
extern uint64_t steps_ended; /* training steps in this process */

/* The role a known routine (known.h) plays in training. */
enum KnownRole {
    KNOWN_PHASE = 0,    /* a phase of the given kind */
    KNOWN_FETCH = 1,    /* fetches a batch; the variable `first` is the object it comes from */
    KNOWN_BACKWARD = 2, /* backward pass */
    KNOWN_UPDATE = 3,   /* optimizer step; `first` is the optimizer, or a tuple that contains it */
    KNOWN_BEGIN = 4,    /* its return begins a step of training (kind 0) or validation (1) */
    KNOWN_END = 5,      /* its return ends the step; `first` may be a mapping of values, or -1 */
    KNOWN_VALUE = 6,    /* logs a value: its name (`first`) and the value (`second`); kind 1: only if
                         * it is no tensor */
    KNOWN_VALUES = 7,   /* logged values: `first` and `second`, as in logged.h; -1: none; kind 1: at
                         * the end of an epoch */
    KNOWN_SAMPLES = 8,  /* `first` is a list with one item per sample of a batch */
    KNOWN_WORKER = 9,   /* main loop of a DataLoader worker; `first` is the worker's index */
    KNOWN_GROUPS = 10,  /* creates process groups, see collectives.h */
    KNOWN_AHEAD = 12,   /* as KNOWN_FETCH, which it becomes, with is_ahead */
    KNOWN_RATE = 13,    /* an optimizer updates parameters at the learning rate `first` */
    KNOWN_PAIR = 14,    /* sends to one rank, or receives from it, see pairs.h */
    KNOWN_JIT = 11,     /* runs the jitted function `first`, recorded as such; kind 1: resumes it */
};

typedef struct KnownRoutine {
    const char *code; /* FILE:NAME */
    int role, kind, first, second;
    int is_ahead; /* it fetches the next batch before it returns the current one */
} KnownRoutine;

/* The first two are called by known.c, the others when a thread's outermost module is called and
 * returns. Returns whether the call counts as validation although none of the phases around it
 * does: a module in evaluation mode, or a module or loss without gradients. */
int steps_called(Thread *thread, const KnownRoutine *known, PyObject *first, PyObject *second);
void steps_left(Thread *thread, const KnownRoutine *known, int returned);
int steps_forward(Thread *thread, PyObject *module, int of_pytorch);
void steps_forward_left(Thread *thread, PyObject *module);
/* A thread's outermost module is called with so many tokens; COUNT_UNKNOWN: none are known. */
void steps_tokens(Thread *thread, PyObject *module, uint64_t tokens);
/* The program explicitly begins or ends a step. */
void step_begin(Thread *thread, enum StepKind kind);
void step_end(Thread *thread);
/* Record a value for the current step. */
void step_value(Thread *thread, const char *name, double value);

/* Where the current step lies relative to the window. A validation step counts as lying where the
 * next training step does. */
enum StepPlace steps_place(const Thread *thread);
/* Whether a step is in progress that either the program has marked, or has had no optimizer step yet
 * and is not validation. The code it returns to is the training loop, or is called by it. */
int steps_goes_on(const Thread *thread);

#endif
