/* What a device is, and how it is: facts, memory, telemetry, processes. */
#include "session.h"

/* ── what does not change ── */

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    DEVICE_OR_INSTANCE(handle)
    snprintf(text, length, "%s", instance ? instance->uuid : device->uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
    DEVICE_OR_INSTANCE(handle)
    if (instance)
        snprintf(text, length, "%s MIG %s", device->name, instance->profile);
    else
        snprintf(text, length, "%s", device->name);
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) {
    DEVICE(handle)
    *minor = device->minor;
    return SUCCESS;
}

int nvmlDeviceGetModuleId(void *handle, unsigned *module) {
    DEVICE(handle)
    *module = device->module;
    return SUCCESS;
}

void write_pci(const struct device *device, struct pci *pci) {
    memset(pci, 0, sizeof *pci);
    sscanf(device->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", device->bus_id);
}

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci) {
    DEVICE(handle)
    write_pci(device, pci);
    return SUCCESS;
}

/* ── memory ── */

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    DEVICE(handle)
    memory->total = device->memory_total;
    memory->reserved = 0;
    memory->used = device->memory_used;
    memory->free = device->memory_total - device->memory_used;
    return SUCCESS;
}

/* ── what changes all the time ── */

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *degrees) {
    (void)sensor;
    DEVICE(handle)
    *degrees = device->temperature;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    DEVICE(handle)
    *milliwatts = device->power;
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    DEVICE(handle)
    *milliwatts = device->power_limit;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *reasons) {
    DEVICE(handle)
    *reasons = device->clock_reasons;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    DEVICE(handle)
    if (device->mig_enabled)
        return NOT_SUPPORTED;
    rates[0] = rates[1] = device->utilisation;
    return SUCCESS;
}

struct process_info {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process_info *processes) {
    DEVICE(handle)
    unsigned room = *count;
    *count = device->process_count;
    if (!device->process_count)
        return SUCCESS;
    if (room < device->process_count)
        return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < device->process_count; i++) {
        const struct process *process = &device->processes[i];
        processes[i] = (struct process_info){process->pid, process->memory, process->gpu_instance,
                                             process->compute_instance};
    }
    return SUCCESS;
}
