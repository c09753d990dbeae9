/* Which kinds of records CUPTI is asked for, and when: at the beginning, with the first managed
 * memory, and again after the program's torch.profiler has had them. */
#ifndef TAUPY_CUPTI_KINDS_H
#define TAUPY_CUPTI_KINDS_H

/* CUPTI's answer where an indispensable one is refused, else 0. */
int kinds_enable(void);

void kinds_begin_unified_memory(void);

/* See GpuHost.lend. */
void kinds_lend(int begins);
int kinds_are_lent(void);

/* At the end: what has not come back is gone. */
void kinds_end(void);

/* What CUPTI refused later on goes into the part; by the thread that it belongs to. */
void kinds_note(void);

#endif
