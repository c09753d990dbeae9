/* Steps: iterations of a training or validation, and how long each phase took in them.
 *
 * A step is recognised by what is called on the thread that trains:
 *
 *     work begins (a batch is fetched, a module called, a backward pass) after an optimizer's
 *     step: perhaps another one has begun; it has when the same optimizer steps again. Else
 *     both are one: of a GAN two optimizers step;
 *     a batch is fetched, and modules were called with the one before, but no backward pass: that
 *     was a step of validation;
 *     the program or its framework says so: then nothing else counts on that thread.
 *
 * A step is a row of a fixed size in the part. Beyond STEP_ROWS rows of a thread and kind, each
 * two become one, so that a row stands for 2, 4, 8 ... steps: their number is not limited, their
 * room is. Times add up; of values that were logged the last one stays.
 *
 * Rows are written by their own thread only, under the GIL. */
#ifndef TAUPY_STEPS_H
#define TAUPY_STEPS_H

#include "listeners.h"

#define STEP_PHASES 12 /* kinds of phases, in the order of taupy/network/phases.py */
#define STEP_VALUES 12 /* names of values, at most */
#define STEP_ROWS 16384

enum StepKind { STEP_TRAINING = 0, STEP_VALIDATION = 1, STEP_KINDS = 2 };

typedef struct StepRecord {
    uint64_t number; /* of the first one, from 1 */
    uint64_t steps;  /* that the row stands for; 0: there is none yet */
    uint64_t start;  /* ticks */
    uint64_t ticks;  /* of all of them */
    uint64_t longest;
    uint64_t samples;                        /* UINT64_MAX: not known */
    uint64_t phases[STEP_PHASES];            /* ticks */
    double values[STEP_VALUES];              /* not a number: none */
} StepRecord;

typedef struct StepValueRecord {
    uint64_t at, name_size; /* the place among `values`; then the name, with a zero byte */
} StepValueRecord;

enum StepPlace { STEP_NONE, STEP_INSIDE, STEP_OUTSIDE }; /* of the window, see steps_window.h */

/* The first and last step of training whose details are recorded, from 1; 0: of all. */
typedef struct StepsWindow {
    uint64_t first, last;
} StepsWindow;

extern StepsWindow steps_window;
extern Listener steps_listener;
extern uint64_t steps_ended; /* of training, in this process */

/* What a known routine (known.h) is to a training. */
enum KnownRole {
    KNOWN_PHASE = 0,    /* of some kind */
    KNOWN_FETCH = 1,    /* of a batch; the variable `first` is what gives them */
    KNOWN_BACKWARD = 2, /* a backward pass */
    KNOWN_UPDATE = 3,   /* an optimizer's step; `first` is the optimizer, or a tuple with it */
    KNOWN_BEGIN = 4,    /* a step of training (kind 0) or validation (1) begins after the call */
    KNOWN_END = 5,      /* and ends with it; `first` may be a mapping of values, or -1 */
    KNOWN_VALUE = 6,    /* told to a logger: a name (`first`) and its value (`second`) */
    KNOWN_VALUES = 7,   /* a mapping of them (`first`), and maybe another one (`second`), or -1 */
    KNOWN_SAMPLES = 8,  /* a list with an item for each sample of a batch (`first`) */
    KNOWN_WORKER = 9,   /* the main loop of a DataLoader's worker; `first` is its number */
    KNOWN_GROUPS = 10,  /* makes groups of processes, see collectives.h */
    KNOWN_JIT = 11,     /* of the jitted function `first`: recorded by that; kind 1: it goes on */
};

typedef struct KnownRoutine {
    const char *code; /* FILE:NAME */
    int role, kind, first, second;
} KnownRoutine;

/* For known.c, the first two; a thread's outermost module is called, or returns. */
void steps_called(Thread *thread, const KnownRoutine *known, PyObject *first, PyObject *second);
void steps_left(Thread *thread, const KnownRoutine *known, int returned);
void steps_forward(Thread *thread, PyObject *module, int begins);
/* A step begins, or ends, because the program says so. */
void step_begin(Thread *thread, enum StepKind kind);
void step_end(Thread *thread);
/* A value of the step at work. */
void step_value(Thread *thread, const char *name, double value);

/* Where in the window is the step at work? That of a validation is where the step of training is
 * that comes next. */
enum StepPlace steps_place(const Thread *thread);
/* Is there a step at work in which no optimizer has stepped, and that is no validation? What that
 * returns to is the training's loop, or a routine that calls its. */
int steps_goes_on(const Thread *thread);

#endif
