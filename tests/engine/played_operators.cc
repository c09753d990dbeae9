// Plays the library that tells of operators (_native/operators_library.cpp).
#include "operators_host.h"
#include <cstring>
#include <thread>

static OperatorsHost *host;
static int is_recording;

static void record(int) { is_recording = 1; }
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

static void write_text(const void *values, char *text, size_t room)
{
    strncpy(text, (const char *)values, room - 1);
    text[room - 1] = 0;
}

// With these inputs, as they are written; nullptr: unknown.
static OperatorInputs inputs_of(const char *text)
{
    uint64_t hash = text == nullptr ? 0 : 1;
    for (const char *at = text; at != nullptr && *at != 0; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3ull;
    return {hash, text, write_text};
}

// An operator that calls this function, if any.
extern "C" void played_with(const char *name, const char *text, void (*inside)())
{
    OpenOperator open;
    OperatorInputs inputs = inputs_of(text);
    int is_open = is_recording && host->begins(name, &inputs, &open);
    if (inside != nullptr)
        inside();
    if (is_open)
        host->ends(&open);
}

extern "C" void played_operator(const char *name, void (*inside)())
{
    played_with(name, nullptr, inside);
}

extern "C" int played_begins(const char *name, OpenOperator *open)
{
    OperatorInputs inputs = inputs_of(nullptr);
    return host->begins(name, &inputs, open);
}

extern "C" void played_ends(const OpenOperator *open) { host->ends(open); }

// On a thread that runs no Python.
extern "C" void played_elsewhere(const char *name)
{
    std::thread([name] { played_operator(name, nullptr); }).join();
}
