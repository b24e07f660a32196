/* Event sets. */
#define _GNU_SOURCE
#include "session.h"

#include <stdlib.h>
#include <time.h>

struct event_set {
    unsigned session;
    uint64_t read; /* events before this one are over for this set */
    uint64_t types[DEVICES];
};

struct event_data {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* The real library has freed the sets of a session that is over. */
static int refused_set(const char *function, const struct event_set *set) {
    int result = refused(function);
    if (set->session != session)
        state->misuses++;
    return set->session == session ? result : INVALID_ARGUMENT;
}

int nvmlEventSetCreate(struct event_set **set) {
    int result = refused(__func__);
    if (result)
        return result;
    *set = calloc(1, sizeof **set);
    (*set)->session = session;
    (*set)->read = __atomic_load_n(&state->events_written, __ATOMIC_ACQUIRE);
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set) {
    int result = refused_set(__func__, set);
    free(set);
    return result;
}

int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) {
    DEVICE(handle)
    *types = device->event_types;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, struct event_set *set) {
    DEVICE(handle)
    if (types & ~device->event_types)
        return NOT_SUPPORTED;
    set->types[device - state->devices] |= types;
    return SUCCESS;
}

static int take_event(struct event_set *set, struct event_data *data) {
    uint64_t written = __atomic_load_n(&state->events_written, __ATOMIC_ACQUIRE);
    while (set->read < written) {
        const struct event *event = &state->events[set->read++ % EVENTS];
        if (!(set->types[event->slot] & event->type))
            continue;
        *data = (struct event_data){handle_of(event->slot), event->type, event->data, event->gpu_instance,
                                    event->compute_instance};
        return 1;
    }
    return 0;
}

static int one_is_lost(const struct event_set *set) {
    for (unsigned slot = 0; slot < DEVICES; slot++)
        if (set->types[slot] && !answers(slot))
            return 1;
    return 0;
}

static int wait_for_event(struct event_set *set, struct event_data *data, unsigned milliseconds) {
    /* The real library blocks. Where processor time is measured, looking each 5 ms would be most of it. */
    const char *told = getenv("FAKE_NVML_PAUSE_MS");
    const unsigned each = told ? (unsigned)atoi(told) : 5;
    const struct timespec pause = {0, each * 1000000L};
    int result = refused_set("nvmlEventSetWait_v2", set);
    for (unsigned waited = 0; !result; waited += each) {
        if (take_event(set, data))
            return SUCCESS;
        if (one_is_lost(set))
            return GPU_IS_LOST;
        if (waited >= milliseconds)
            return TIMEOUT;
        nanosleep(&pause, NULL);
        result = session_is_over();
    }
    return result;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned milliseconds) {
    __atomic_fetch_add(&waiting, 1, __ATOMIC_ACQ_REL);
    int result = wait_for_event(set, data, milliseconds);
    __atomic_fetch_sub(&waiting, 1, __ATOMIC_ACQ_REL);
    return result;
}
