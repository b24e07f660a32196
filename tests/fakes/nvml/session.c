/* A libnvidia-ml.so.1 that plays the devices of a state file (state.h), named by FAKE_NVML_STATE.
   It keeps what makes the real one difficult: handles belong to a session, devices are counted when a session begins,
   a driver that was restarted leaves the session useless, a lost device answers nothing. */
#define _GNU_SOURCE
#include "session.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* ── a session: from the first nvmlInit to the last nvmlShutdown ── */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned references, driver_start;
unsigned session, waiting;
struct state *state;
unsigned slots[DEVICES], counted;

static int map_state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return DRIVER_NOT_LOADED;
    if (state)
        munmap(state, sizeof *state);
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (state == MAP_FAILED || state->size != sizeof *state) {
        state = NULL;
        return UNKNOWN;
    }
    return SUCCESS;
}

static int by_bus(const void *a, const void *b) {
    return strcmp(state->devices[*(const unsigned *)a].bus_id, state->devices[*(const unsigned *)b].bus_id);
}

static int begin_session(void) {
    int result = map_state();
    if (result)
        return result;
    __atomic_fetch_add(&state->calls, 1, __ATOMIC_RELAXED);
    if (state->init_result)
        return (int)state->init_result;
    if (!state->driver_loaded)
        return DRIVER_NOT_LOADED;
    driver_start = state->driver_starts;
    counted = 0;
    for (unsigned slot = 0; slot < DEVICES; slot++)
        if (state->devices[slot].presence != UNPLUGGED)
            slots[counted++] = slot;
    qsort(slots, counted, sizeof slots[0], by_bus);
    session = __atomic_add_fetch(&state->sessions, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&mutex);
    int result = references ? SUCCESS : begin_session();
    if (!result)
        references++;
    pthread_mutex_unlock(&mutex);
    return result;
}

int nvmlShutdown(void) {
    pthread_mutex_lock(&mutex);
    int result = references ? SUCCESS : UNINITIALIZED;
    if (references && !--references && __atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
        state->misuses++;
    pthread_mutex_unlock(&mutex);
    return result;
}

const char *nvmlErrorString(int result) {
    (void)result;
    return "fake";
}

/* ── what every call does first ── */

int failure_of(const char *function) {
    for (unsigned i = 0; i < FAILURES; i++)
        if (state->failures[i].code && !strcmp(state->failures[i].function, function))
            return (int)state->failures[i].code;
    return SUCCESS;
}

int session_is_over(void) {
    if (!state->driver_loaded)
        return DRIVER_NOT_LOADED;
    return state->driver_starts == driver_start ? SUCCESS : UNINITIALIZED;
}

int refused(const char *function) {
    if (!references || !state)
        return UNINITIALIZED;
    __atomic_fetch_add(&state->calls, 1, __ATOMIC_RELAXED);
    if (state->delay_microseconds) {
        struct timespec delay = {state->delay_microseconds / 1000000, state->delay_microseconds % 1000000 * 1000};
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
        nanosleep(&delay, NULL);
    }
    int over = session_is_over();
    return over ? over : failure_of(function);
}

int answers(unsigned slot) {
    const struct device *device = &state->devices[slot];
    return device->presence == PRESENT || (device->presence == BACK && session > device->back_after);
}

void *handle_of(unsigned slot) { return (void *)(uintptr_t)(HANDLES + slot * HANDLES_OF_A_DEVICE); }

static unsigned slot_of(void *handle) {
    uintptr_t value = (uintptr_t)handle;
    return value < HANDLES ? DEVICES : (unsigned)((value - HANDLES) / HANDLES_OF_A_DEVICE);
}

int find(void *handle, struct device **device, struct instance **instance) {
    unsigned slot = slot_of(handle), part = (uintptr_t)handle % HANDLES_OF_A_DEVICE;
    if (slot >= DEVICES)
        return INVALID_ARGUMENT;
    if (!answers(slot))
        return GPU_IS_LOST;
    *device = &state->devices[slot];
    if (instance)
        *instance = part ? &(*device)->instances[part - 1] : NULL;
    if (part && !(*device)->instances[part - 1].used)
        return INVALID_ARGUMENT;
    return SUCCESS;
}

/* ── the driver, and which devices there are ── */

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    int result = refused(__func__);
    if (!result)
        snprintf(text, length, "%s", state->driver_version);
    return result;
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    int result = refused(__func__);
    if (!result)
        *version = (int)state->cuda_version;
    return result;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int result = refused(__func__);
    if (!result)
        *count = counted;
    return result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int result = refused(__func__);
    if (result)
        return result;
    if (index >= counted)
        return INVALID_ARGUMENT;
    *handle = handle_of(slots[index]);
    return answers(slots[index]) ? SUCCESS : GPU_IS_LOST;
}
