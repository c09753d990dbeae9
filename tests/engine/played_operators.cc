// Plays the library that tells of operators (_native/operators_library.cpp).
#include "operators_host.h"
#include <thread>

static OperatorsHost *host;
static int is_recording;

static void record() { is_recording = 1; }
static void count(int) {}
static int describe(void *, HostTensor *) { return 0; }

extern "C" const char *taupy_operators_begin(OperatorsHost *given)
{
    host = given;
    host->record = record;
    host->count = count;
    host->tensor = describe;
    return nullptr;
}

// An operator that calls this function, if any.
extern "C" void played_operator(const char *name, void (*inside)())
{
    OpenOperator open;
    int is_open = is_recording && host->begins(name, &open);
    if (inside != nullptr)
        inside();
    if (is_open)
        host->ends(&open);
}

extern "C" int played_begins(const char *name, OpenOperator *open)
{
    return host->begins(name, open);
}

extern "C" void played_ends(const OpenOperator *open) { host->ends(open); }

// On a thread that runs no Python.
extern "C" void played_elsewhere(const char *name)
{
    std::thread([name] { played_operator(name, nullptr); }).join();
}
