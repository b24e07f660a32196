/* What a device is, and how it is: facts, memory, errors, telemetry, processes. */
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

int nvmlDeviceGetTopologyCommonAncestor(void *first, void *second, unsigned *level) {
    struct device *other;
    DEVICE(first)
    int result = find(second, &other, NULL);
    if (result)
        return result;
    if (device->board == other->board)
        *level = 0;
    else if (device->pcie_switch && device->pcie_switch == other->pcie_switch)
        *level = 10;
    else if (device->pcie_root == other->pcie_root)
        *level = device->pcie_switch && other->pcie_switch ? 20 : 30;
    else
        *level = device->numa == other->numa ? 40 : 50;
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(void *first, void *second, int kind, unsigned *status) {
    struct device *other;
    DEVICE(first)
    int result = find(second, &other, NULL);
    if (result || kind != 0)
        return result ? result : INVALID_ARGUMENT;
    int may = device->peers && device->peers == other->peers && !device->mig_enabled && !other->mig_enabled;
    *status = may ? 0 : 5;
    return SUCCESS;
}

/* ── memory, ECC ── */

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    DEVICE(handle)
    *memory = (struct memory){device->memory_total, device->memory_total - device->memory_used, device->memory_used};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    DEVICE(handle)
    memory->total = device->memory_total;
    memory->reserved = 0;
    memory->used = device->memory_used;
    memory->free = device->memory_total - device->memory_used;
    return SUCCESS;
}

int nvmlDeviceGetEccMode(void *handle, unsigned *current, unsigned *pending) {
    DEVICE(handle)
    *current = *pending = device->ecc_enabled;
    return device->ecc_supported ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned counter, unsigned long long *count) {
    DEVICE(handle)
    if (!device->ecc_supported || !device->ecc_enabled || counter != 0)
        return NOT_SUPPORTED;
    *count = kind == 0 ? device->ecc_corrected : device->ecc_uncorrected;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(void *handle, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                              unsigned *failed) {
    DEVICE(handle)
    *correctable = device->remap_corrected;
    *uncorrectable = device->remap_uncorrected;
    *pending = device->remap_pending;
    *failed = device->remap_failed;
    return device->ecc_supported ? SUCCESS : NOT_SUPPORTED;
}

/* ── what changes all the time ── */

struct temperature_v1 {
    unsigned version, sensor;
    int degrees;
};

int nvmlDeviceGetTemperatureV(void *handle, struct temperature_v1 *temperature) {
    DEVICE(handle)
    temperature->degrees = (int)device->temperature;
    return SUCCESS;
}

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

int nvmlDeviceGetClockInfo(void *handle, unsigned clock, unsigned *megahertz) {
    DEVICE(handle)
    *megahertz = clock == 2 ? device->memory_clock : device->sm_clock;
    return clock == 1 || clock == 2 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *reasons) {
    DEVICE(handle)
    *reasons = device->clock_reasons;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
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

static int write_processes(const struct device *device, unsigned *count, struct process_info *processes) {
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

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process_info *processes) {
    DEVICE(handle)
    return write_processes(device, count, processes);
}

int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process_info *processes) {
    DEVICE(handle)
    return write_processes(device, count, processes);
}
