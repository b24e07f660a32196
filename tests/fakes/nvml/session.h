/* What the parts of the fake NVML share: results, the session, and how a function about a device begins. */
#ifndef FAKE_NVML_SESSION_H
#define FAKE_NVML_SESSION_H

#include "state.h"

#include <stdio.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999
};
enum { NO_INSTANCE = 0xFFFFFFFF, HANDLES = 0x1000, HANDLES_OF_A_DEVICE = 0x100 };

extern struct state *state;
/* Number of the session, and calls that wait for events now. */
extern unsigned session, waiting;
/* Slots of the devices that were plugged in when the session began, by their bus. */
extern unsigned slots[DEVICES], counted;

/* What a function or a field is made to fail with; 0: nothing. */
int failure_of(const char *function);
/* 0 as long as the driver of this session runs. */
int session_is_over(void);
/* What every call does first: it is counted, takes its time, and may be refused. */
int refused(const char *function);
int answers(unsigned slot);
void *handle_of(unsigned slot);
/* The device of a handle; for the handle of a MIG instance its instance too. */
int find(void *handle, struct device **device, struct instance **instance);
unsigned link_count(const struct device *device);

struct pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
void write_pci(const struct device *device, struct pci *pci);

/* The beginning of a function about one device: returns where the call is refused or the device does not answer. */
#define DEVICE(handle)                                                                                                 \
    struct device *device;                                                                                             \
    {                                                                                                                  \
        int result_ = refused(__func__);                                                                               \
        if (!result_)                                                                                                  \
            result_ = find(handle, &device, NULL);                                                                     \
        if (result_)                                                                                                   \
            return result_;                                                                                            \
    }

/* The same for a handle that may be one of a MIG instance. */
#define DEVICE_OR_INSTANCE(handle)                                                                                     \
    struct device *device;                                                                                             \
    struct instance *instance;                                                                                         \
    {                                                                                                                  \
        int result_ = refused(__func__);                                                                               \
        if (!result_)                                                                                                  \
            result_ = find(handle, &device, &instance);                                                                \
        if (result_)                                                                                                   \
            return result_;                                                                                            \
    }

#endif
