/* A stand-in for libcupti: who subscribes, and what is called back. FAKE_CUPTI: the version of CUDA
 * that it is of (1206 to 1305), instead of that of the headers; FAKE_API: the number that
 * cuptiGetVersion tells; FAKE_SUBSCRIBE=CODE; FAKE_REFUSED_CALL=NAME. */
#include "played_cupti.h"

#define IDS 4096

static CUpti_CallbackFunc callback;
static void *callback_user;
static uint8_t enabled[CUPTI_CB_DOMAIN_SIZE][IDS];
thread_local Place place;

static const struct {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
    const char *name;
} names[] = {
#include "names.h" /* made from cupti_driver_cbid.h and cupti_runtime_cbid.h */
};

int version()
{
    return setting("FAKE_CUPTI", HEADERS_VERSION);
}

int is_known_size(const char *structure, size_t size)
{
    static const struct {
        int version;
        const char *structure;
        size_t size;
    } sizes[] = {
#include "sizes.h" /* made from layouts.json */
    };
    for (auto &known : sizes)
        if (known.version == version() && known.size == size && !strcmp(known.structure, structure))
            return 1;
    fprintf(stderr, "the played CUPTI %d knows no %s of %zu bytes\n", version(), structure, size);
    return 0;
}

static int has_given_up;

int is_finalized(const char *structure)
{
    if (has_given_up)
        fprintf(stderr, "the played CUPTI was called (%s) after it was finalized\n", structure);
    return has_given_up;
}

static void call_back(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data, Place where)
{
    auto function = callback; /* another thread may be unsubscribing */
    if (function == NULL || !enabled[domain][id])
        return;
    Place before = place;
    place = where;
    function(callback_user, domain, id, data);
    place = before;
}

/* ---------------------------------------------------------------- from the driver */

static thread_local int in_runtime;

/* With FAKE_RANGE=silent nothing is told of calls of the driver that the runtime makes. */
static void on_call(CUpti_ApiCallbackSite site, Call *call)
{
    int is_driver = call->domain == CUPTI_CB_DOMAIN_DRIVER_API;
    static thread_local uint64_t slots[2];
    CUpti_CallbackData data = {};
    data.callbackSite = site;
    data.functionName = call->function;
    data.functionParams = call->parameters;
    data.functionReturnValue = site == CUPTI_API_EXIT ? &call->result : NULL;
    data.symbolName = call->symbol;
    data.context = call->context;
    data.contextUid = 1;
    data.correlationData = &slots[is_driver];
    data.correlationId = call->correlation;
    int is_silent = is_driver && in_runtime && asked("FAKE_RANGE", "silent");
    if (!is_driver)
        in_runtime = site == CUPTI_API_ENTER;
    if (!is_silent)
        call_back(call->domain, call->id, &data, site == CUPTI_API_ENTER ? LAUNCH_BEGINS : LAUNCH_ENDS);
    if (site == CUPTI_API_EXIT && !(is_driver && in_runtime))
        ranges_arrive();
}

static CUcontext contexts[8];

static void on_context(int created, CUcontext context, uint32_t device)
{
    CUpti_ResourceData data = {};
    data.context = context;
    contexts[device] = context;
    call_back(CUPTI_CB_DOMAIN_RESOURCE,
              created ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
                      : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
              &data, CONTEXT_BEGINS);
    if (!created) {
        forget_ranges(context);
        forget_records(device + 1);
    }
}

static Hooks hooks = {on_call, on_context, is_wanted, record, is_counted, counted};

/* ---------------------------------------------------------------- to the program */

/* Something went wrong inside CUPTI, which it tells as a state; after a fatal error it has called
 * cuptiFinalize. */
FOR_PROGRAMS void fake_state(int id, int result, const char *message)
{
    CUpti_StateData data = {};
    data.notification.result = (CUptiResult)result;
    data.notification.message = message;
    call_back(CUPTI_CB_DOMAIN_STATE, (CUpti_CallbackId)id, &data, ELSEWHERE);
    if (id == CUPTI_CBID_STATE_FATAL_ERROR) {
        has_given_up = 1;
        callback = NULL;
        finalize_activities();
    }
}

/* The driver loads a module. */
FOR_PROGRAMS void fake_module(const char *cubin, size_t size)
{
    static uint32_t modules;
    CUpti_ModuleResourceData module = {++modules, size, cubin};
    CUpti_ResourceData data = {};
    data.resourceDescriptor = &module;
    call_back(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED, &data, ELSEWHERE);
}

void *driver()
{
    return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

int driver_is_ready()
{
    void *library = driver();
    auto is_ready = library != NULL ? (int (*)(void))dlsym(library, "fake_ready") : NULL;
    return is_ready != NULL && is_ready();
}

CUptiResult cuptiGetVersion(uint32_t *number)
{
    int played = version();
    *number = getenv("FAKE_API") != NULL    ? (uint32_t)setting("FAKE_API", 0)
              : getenv("FAKE_CUPTI") == NULL ? CUPTI_API_VERSION
              : played >= 1300               ? (uint32_t)played * 100u + 1
              : played == 1206               ? 24
              : played == 1208               ? 26
                                             : 28;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
            : result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
            : result == CUPTI_ERROR_INVALID_OPERATION       ? "CUPTI_ERROR_INVALID_OPERATION"
                                                            : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc function,
                           void *user)
{
    void *library = driver();
    auto connect =
        library != NULL ? (void (*)(Hooks *))dlsym(library, "fake_set_hooks") : NULL;
    if (setting("FAKE_SUBSCRIBE", 0))
        return (CUptiResult)setting("FAKE_SUBSCRIBE", 0);
    if (connect == NULL)
        return CUPTI_ERROR_UNKNOWN;
    if (callback != NULL)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    callback = function;
    callback_user = user;
    *subscriber = (CUpti_SubscriberHandle)&hooks;
    connect(&hooks);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
    if (subscriber != (CUpti_SubscriberHandle)&hooks)
        return CUPTI_ERROR_INVALID_PARAMETER;
    callback = NULL;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    const char *refused = getenv("FAKE_REFUSED_CALL"), *name = "";
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API)
        cuptiGetCallbackName(domain, id, &name);
    if (subscriber != (CUpti_SubscriberHandle)&hooks || domain <= CUPTI_CB_DOMAIN_INVALID ||
        domain >= CUPTI_CB_DOMAIN_SIZE || id >= IDS || (refused != NULL && !strcmp(name, refused)))
        return CUPTI_ERROR_INVALID_PARAMETER;
    enabled[domain][id] = (uint8_t)enable;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain)
{
    if (subscriber != (CUpti_SubscriberHandle)&hooks || domain <= CUPTI_CB_DOMAIN_INVALID ||
        domain >= CUPTI_CB_DOMAIN_SIZE)
        return CUPTI_ERROR_INVALID_PARAMETER;
    memset(enabled[domain], (int)enable, IDS);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
    for (auto &known : names)
        if (known.domain == domain && known.id == id)
            return *name = known.name, CUPTI_SUCCESS;
    return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *device)
{
    for (uint32_t i = 0; i < 8; i++)
        if (contexts[i] == context && context != NULL)
            return *device = i, CUPTI_SUCCESS;
    return CUPTI_ERROR_INVALID_CONTEXT;
}
