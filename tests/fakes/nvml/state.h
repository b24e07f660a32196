/* The world that the fake NVML plays: a file in shared memory that state.py writes and nvml.c reads.
   Fields are in the same order in both; `size` holds both to the same layout. */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H

#include <stdint.h>

enum { DEVICES = 16, LINKS = 36, INSTANCES = 8, PROCESSES = 16, FAILURES = 64, EVENTS = 256 };

enum link_state { LINK_ABSENT, LINK_DOWN, LINK_UP };

/* How a device answers. BACK: to sessions that began after `back_after` others did. */
enum presence { UNPLUGGED, PRESENT, LOST, BACK };

struct link {
    uint32_t state;
    uint32_t remote_type; /* NVML_NVLINK_DEVICE_TYPE_* */
    uint32_t remote_slot; /* of the other device, for links to a GPU */
};

struct instance {
    uint32_t used;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    char uuid[96];
    char profile[32];
};

struct process {
    uint64_t memory;
    uint32_t pid;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t padding;
};

struct device {
    char uuid[96];
    char name[96];
    char bus_id[32];
    uint64_t memory_total;
    uint64_t memory_used;
    uint64_t event_types; /* supported ones */
    uint64_t clock_reasons;
    uint64_t ecc_uncorrected;
    uint32_t presence;
    uint32_t back_after;
    uint32_t minor;
    uint32_t module;
    uint32_t pcie_root; /* of one root complex */
    uint32_t mig_supported;
    uint32_t mig_enabled;
    uint32_t ecc_supported;
    uint32_t ecc_enabled;
    uint32_t remap_pending;
    uint32_t remap_failed;
    uint32_t recovery_action;
    uint32_t fabric_state; /* NVML_GPU_FABRIC_STATE_* */
    uint32_t fabric_clique;
    uint32_t temperature;
    uint32_t power;
    uint32_t power_limit;
    uint32_t utilisation;
    uint32_t process_count;
    uint8_t fabric_cluster[16];
    struct link links[LINKS];
    struct instance instances[INSTANCES];
    struct process processes[PROCESSES];
};

struct failure {
    char function[64]; /* or "field 230": one value of nvmlDeviceGetFieldValues */
    uint32_t code;
};

struct event {
    uint64_t type;
    uint64_t data;
    uint32_t slot;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t padding;
};

struct state {
    uint64_t size;
    uint64_t calls; /* of all processes since the file was made */
    uint64_t events_written;
    uint32_t driver_loaded;
    uint32_t driver_starts;
    uint32_t delay_microseconds; /* of each call */
    uint32_t sessions;           /* begun by nvmlInit */
    uint32_t cuda_version;
    uint32_t init_result; /* what nvmlInit returns */
    uint32_t misuses;     /* shut down under a call that waits; event sets of sessions that are over */
    uint32_t padding;
    char driver_version[80];
    struct failure failures[FAILURES];
    struct event events[EVENTS];
    struct device devices[DEVICES];
};

#endif
