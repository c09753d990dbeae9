/* Which CUDA API calls are recorded, by name. */
#ifndef TAUPY_CUPTI_INTEREST_H
#define TAUPY_CUPTI_INTEREST_H

enum {
    CALL_OF_INTEREST = 1,
    CALL_LAUNCHES = 2,
    CALL_MANAGED = 4,
    CALL_LOADS = 8,
    CALL_KERNEL = 16,  /* launches exactly one kernel */
    CALL_CAPTURES = 32 /* begins or ends the capture of a graph */
};

/* The flags of a function; 0: not recorded. `domain`: DOMAIN_DRIVER or DOMAIN_RUNTIME. */
int interest_in(int domain, const char *name);

#endif
