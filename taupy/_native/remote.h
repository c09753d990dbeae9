/* The Python frames of another process, read from outside: nothing is stopped, written or called
 * there. No Python here, and nothing that is read is trusted: it may change meanwhile, or be
 * nonsense. A bad address ends a look. */
#ifndef TAUPY_REMOTE_H
#define TAUPY_REMOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the fields lie in that interpreter's structures, in bytes. The engine, which was compiled
 * against its headers, writes it into the part (interpreter.c), so no table of versions is needed. */
typedef struct RemoteLayout {
    uint64_t version;   /* PY_VERSION_HEX */
    uint64_t code_type; /* address of PyCode_Type */
    uint64_t gil, gil_size; /* address and size of the main interpreter's lock */
    uint64_t thread_native_id, thread_chunk;
    uint64_t thread_frame;   /* of the innermost frame; up to 3.12, of a structure that has it */
    uint64_t is_indirect, cframe_frame;
    uint64_t frame_code, frame_instruction, frame_previous, frame_owner, frame_size;
    uint64_t owner_shim;     /* from this owner on, a frame has no code; 0: there are none */
    uint64_t object_type, var_size, code_file, code_name, code_lines, code_first_line, code_code;
    uint64_t bytes_data, text_length, text_state, text_ascii, text_compact; /* the last two: sizes */
    uint64_t kind_shift, compact_bit, ascii_bit; /* in a text's state */
} RemoteLayout;

/* One thread of a process, and what was found at the last look at it. */
typedef struct RemoteThread {
    pid_t pid;
    RemoteLayout layout;
    uint64_t state, native_id;   /* address of its PyThreadState; its id */
    uint64_t link, chunk, bytes; /* where the pointer to its innermost frame and its stack lie */
    uint64_t moved, repeated;    /* looks during which it went on; that were incomplete at first */
} RemoteThread;

typedef struct RemoteFrame {
    uint64_t code;      /* address of the code object, unchecked */
    int64_t instruction; /* bytes from the beginning of its code */
} RemoteFrame;

enum RemoteResult {
    REMOTE_FRAMES = 0,
    REMOTE_NONE = 1,   /* it runs no Python */
    REMOTE_GONE = 2,   /* there is no such thread any more */
    REMOTE_TORN = 3,   /* what was read does not fit together */
    REMOTE_FORBIDDEN = 4,
};

#define REMOTE_FRAMES_AT_MOST 1024
#define REMOTE_TEXT_AT_MOST (1u << 16)
#define REMOTE_LINES_AT_MOST (1u << 22)

/* Whether a walk may end at this code. */
typedef int RemoteStop(void *context, uint64_t code);

/* Returns -1 if a layout cannot be one of CPython's. */
int remote_begin(RemoteThread *thread, pid_t pid, const RemoteLayout *layout, uint64_t state,
                 uint64_t native_id);

/* Look at a thread once: its frames, innermost first, up to the first at which `stop` says so.
 * What moved while it was read is not read again: that would favour what takes long. Only a stack
 * that is incomplete is. */
enum RemoteResult remote_look(RemoteThread *thread, RemoteStop *stop, void *context,
                              RemoteFrame *frames, size_t *count);

typedef struct RemoteCode {
    uint64_t units; /* code units of two bytes */
    uint64_t file, name, lines; /* addresses of two texts and of its table of lines */
    uint64_t line_bytes;
    int32_t first_line;
} RemoteCode;

/* Read the head of a code object. Returns -1 if there is none at this address. */
int remote_code(const RemoteThread *thread, uint64_t address, RemoteCode *code);

typedef struct RemoteText {
    uint64_t address, length; /* of its characters, in characters */
    int kind;                 /* bytes for each: 1, 2 or 4 */
} RemoteText;

/* Read the head of a text. Returns -1 if there is none at this address. */
int remote_text(const RemoteThread *thread, uint64_t address, RemoteText *text);

/* Read bytes. Returns -1 if they cannot all be read. */
int remote_bytes(const RemoteThread *thread, uint64_t address, void *to, size_t size);

#endif
