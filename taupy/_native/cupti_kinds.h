/* Which kinds of records are requested from CUPTI, and when: at the start, at the first use of
 * managed memory, and again after the program's torch.profiler has used them. */
#ifndef TAUPY_CUPTI_KINDS_H
#define TAUPY_CUPTI_KINDS_H

/* Returns CUPTI's result if an indispensable kind is refused, else 0. */
int kinds_enable(void);

void kinds_begin_unified_memory(void);

/* See GpuHost.lend. */
void kinds_lend(int begins);
int kinds_are_lent(void);

/* At the end: records not returned by now are lost. */
void kinds_end(void);

/* Note in the part the kinds that CUPTI refused after the start. To be called by the thread that
 * owns the part. */
void kinds_note(void);

#endif
