/* Sizes of batches; see batches.h. */
#include "batches.h"
#include <string.h>

/* What libraries for language models call the tensor with one item per token. */
static const char *const token_names[] = {"input_ids", "tokens", "token_ids", "src_tokens"};
#define TOKEN_NAMES (sizeof token_names / sizeof *token_names)

uint64_t sum_known(uint64_t one, uint64_t other)
{
    return one == COUNT_UNKNOWN ? other : other == COUNT_UNKNOWN ? one : one + other;
}

void batch_add(Batch *batch, const Batch *more)
{
    batch->samples = sum_known(batch->samples, more->samples);
    batch->is_uncounted |= more->is_uncounted;
}

static long number_in(PyObject *variables, const char *name)
{
    PyObject *number = PyDict_GetItemString(variables, name); /* borrowed */
    return number != NULL && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
}

Batch batch_of_workers(PyObject *iterator)
{
    Batch batch = {COUNT_UNKNOWN, 0};
    PyObject *variables = iterator != NULL ? PyObject_GenericGetDict(iterator, NULL) : NULL;
    if (variables != NULL && PyDict_CheckExact(variables) &&
        number_in(variables, "_num_workers") > 0 && number_in(variables, "_dataset_kind") == 0) {
        PyObject *sampler = PyDict_GetItemString(variables, "_index_sampler"); /* borrowed */
        PyObject *of_sampler = sampler != NULL ? PyObject_GenericGetDict(sampler, NULL) : NULL;
        long size = of_sampler != NULL && PyDict_CheckExact(of_sampler)
                        ? number_in(of_sampler, "batch_size")
                        : -1;
        int is_last = number_in(variables, "_tasks_outstanding") <= 0;
        batch.is_uncounted = size < 0 || (is_last && number_in(variables, "_drop_last") != 1);
        if (!batch.is_uncounted)
            batch.samples = (uint64_t)size;
        Py_XDECREF(of_sampler);
    }
    Py_XDECREF(variables);
    PyErr_Clear();
    return batch;
}

/* ---------------------------------------------------------------- loaders that fetch ahead */

LoaderAhead *loader_ahead(LoadersAhead *all, const void *source)
{
    for (size_t i = 0; i < LOADERS_AHEAD; i++)
        if (all->loaders[i].source == source)
            return &all->loaders[i];
    LoaderAhead *loader = &all->loaders[all->next++ % LOADERS_AHEAD];
    *loader = (LoaderAhead){source, {COUNT_UNKNOWN, 0}, {COUNT_UNKNOWN, 0}, 0};
    return loader;
}

void loader_ahead_fetched(LoaderAhead *loader, const Batch *batch)
{
    loader->has_ended = batch == NULL;
    if (batch == NULL)
        return;
    loader->before = loader->last;
    loader->last = *batch;
}

Batch loader_ahead_returned(const LoaderAhead *loader)
{
    return loader->has_ended ? loader->last : loader->before;
}

/* ---------------------------------------------------------------- tokens */

static TokensFound tokens_in(PyObject *mapping)
{
    TokensFound found = {NULL, NULL};
    for (size_t i = 0; i < TOKEN_NAMES && found.tokens == NULL; i++)
        found = (TokensFound){PyDict_GetItemString(mapping, token_names[i]), token_names[i]};
    return found;
}

/* The name if a parameter of this name takes tokens, or NULL. */
static const char *name_of_tokens(PyObject *name)
{
    for (size_t i = 0; i < TOKEN_NAMES; i++)
        if (PyUnicode_CheckExact(name) && PyUnicode_CompareWithASCIIString(name, token_names[i]) == 0)
            return token_names[i];
    return NULL;
}

/* The item of `positional` at the parameter of the module's `forward` that takes tokens. */
static TokensFound tokens_at(PyObject *module, PyObject *positional)
{
    TokensFound found = {NULL, NULL};
    PyObject *key = PyUnicode_InternFromString("forward");
    PyObject *forward = key != NULL ? _PyType_Lookup(Py_TYPE(module), key) : NULL; /* borrowed */
    PyCodeObject *code = forward != NULL && PyFunction_Check(forward)
                             ? (PyCodeObject *)PyFunction_GET_CODE(forward)
                             : NULL;
    PyObject *names = code != NULL ? PyCode_GetVarnames(code) : NULL;
    for (Py_ssize_t at = 1; names != NULL && found.tokens == NULL && at < code->co_argcount &&
                            at <= PyTuple_GET_SIZE(positional);
         at++)
        if ((found.name = name_of_tokens(PyTuple_GET_ITEM(names, at))) != NULL)
            found.tokens = PyTuple_GET_ITEM(positional, at - 1);
    Py_XDECREF(names);
    Py_XDECREF(key);
    return found;
}

TokensFound tokens_among(PyObject *module, PyObject *positional, PyObject *named)
{
    TokensFound found = {NULL, NULL};
    if (named != NULL && PyDict_CheckExact(named))
        found = tokens_in(named);
    if (found.tokens == NULL && positional != NULL && PyTuple_CheckExact(positional) &&
        PyTuple_GET_SIZE(positional) > 0) {
        PyObject *first = PyTuple_GET_ITEM(positional, 0);
        found = PyDict_CheckExact(first) ? tokens_in(first) : tokens_at(module, positional);
    }
    PyErr_Clear();
    return found;
}
