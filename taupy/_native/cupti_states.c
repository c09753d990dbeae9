#include "cupti_states.h"
#include "collector.h"
#include <stdio.h>

#define STATES_AT_MOST 8

static struct {
    uint32_t id;
    int result, is_whole; /* is_whole: atomic */
    char message[200];
} states[STATES_AT_MOST];
static int state_count; /* atomic */
static int states_noted;
static int cupti_gave_up; /* after a fatal error it has called cuptiFinalize itself */

/* Called on any thread, for errors that no function returns: the worker notes them in the part. */
void states_on_callback(uint32_t id, const StateData *state)
{
    int number = __atomic_fetch_add(&state_count, 1, __ATOMIC_RELAXED);
    if (id == STATE_FATAL)
        __atomic_store_n(&cupti_gave_up, 1, __ATOMIC_RELEASE);
    if (number >= STATES_AT_MOST)
        return;
    states[number].id = id;
    states[number].result = state->result;
    if (state->message != NULL)
        snprintf(states[number].message, sizeof states[number].message, "%s", state->message);
    __atomic_store_n(&states[number].is_whole, 1, __ATOMIC_RELEASE);
}

void states_note(void)
{
    char text[256];
    for (; states_noted < STATES_AT_MOST &&
           __atomic_load_n(&states[states_noted].is_whole, __ATOMIC_ACQUIRE);
         states_noted++) {
        snprintf(text, sizeof text, "%s (%d: %s)", state_name(states[states_noted].id),
                 states[states_noted].result, states[states_noted].message);
        gpu_part_note(collector.part, "states", text);
    }
}

int states_are_fatal(void) { return __atomic_load_n(&cupti_gave_up, __ATOMIC_ACQUIRE); }
