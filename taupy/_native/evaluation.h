/* Whether PyTorch evaluates: modules in evaluation mode, or without gradients. */
#ifndef TAUPY_EVALUATION_H
#define TAUPY_EVALUATION_H

#include <Python.h>

/* Whether the calling thread computes without gradients (`no_grad`, `inference_mode`). */
int without_gradients(void);
/* The timer of what is evaluated; NULL if memory runs out. */
void *evaluation_timer(void);

#endif
