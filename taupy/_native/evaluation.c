/* Whether PyTorch evaluates; see evaluation.h. */
#define _GNU_SOURCE
#include "evaluation.h"
#include "timers.h"
#include <dlfcn.h>
#include <stdbool.h>

/* c10::GradMode::is_enabled(), which takes nothing and runs none of the program's code. Inference
 * mode turns gradients off, too. */
#define GRAD_MODE "_ZN3c108GradMode10is_enabledEv"

int without_gradients(void)
{
    static bool (*is_enabled)(void);
    static int is_tried;
    if (!is_tried) {
        void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
        *(void **)&is_enabled = library != NULL ? dlsym(library, GRAD_MODE) : NULL;
        is_tried = 1;
    }
    return is_enabled != NULL && !is_enabled();
}

void *evaluation_timer(void)
{
    void *key = timer_key("validation", EVALUATION_GROUP);
    PyErr_Clear();
    return key;
}
