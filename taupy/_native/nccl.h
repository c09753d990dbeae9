/* The file that the NCCL plug-in keeps in the run folder; read by record/nccl_part.py. */
#ifndef TAUPY_NCCL_H
#define TAUPY_NCCL_H

#include <stdint.h>

#define NCCL_MAGIC "TAUPYNCC"
#define NCCL_FILE_VERSION 1
#define NCCL_COMMUNICATORS 64
#define NCCL_ROWS 16384

typedef struct NcclCommunicator {
    uint64_t id; /* the same on all ranks */
    uint32_t size, rank;
    char name[48];
} NcclCommunicator;

typedef struct NcclRow {
    uint32_t is_used, communicator;
    uint64_t number; /* from 0, counted separately for each operation */
    int64_t bytes;   /* this process's contribution; -1: unknown */
    uint64_t cause;  /* call-tree node of the engine; 0: unknown */
    int64_t asked_ns, begun_ns, ended_ns; /* CLOCK_REALTIME; 0: not yet known */
    char operation[32];
} NcclRow;

typedef struct NcclFile {
    char magic[8];
    uint64_t version, pid, communicator_count, row_count, lost;
    NcclCommunicator communicators[NCCL_COMMUNICATORS];
    NcclRow rows[NCCL_ROWS];
} NcclFile;

#endif
