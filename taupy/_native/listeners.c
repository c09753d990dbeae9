/* The list of listeners. */
#include "listeners.h"

Listener *listeners;

void listener_add(Listener *listener)
{
    Listener **at = &listeners;
    for (; *at != NULL; at = &(*at)->next)
        if (*at == listener)
            return;
    *at = listener;
}
