/* MIG instances. */
#include "session.h"

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    DEVICE(handle)
    *current = *pending = device->mig_enabled;
    return device->mig_supported ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    DEVICE(handle)
    *count = device->mig_supported ? INSTANCES - 1 : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance) {
    DEVICE(handle)
    if (index >= INSTANCES)
        return INVALID_ARGUMENT;
    *instance = (char *)handle + 1 + index;
    return device->mig_enabled && device->instances[index].used ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id) {
    DEVICE_OR_INSTANCE(handle)
    *id = instance ? instance->gpu_instance : 0;
    return instance ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id) {
    DEVICE_OR_INSTANCE(handle)
    *id = instance ? instance->compute_instance : 0;
    return instance ? SUCCESS : INVALID_ARGUMENT;
}

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

int nvmlDeviceGetAttributes_v2(void *handle, struct attributes *attributes) {
    DEVICE_OR_INSTANCE(handle)
    if (!instance)
        return NOT_SUPPORTED;
    memset(attributes, 0, sizeof *attributes);
    attributes->gpu_slices = attributes->compute_slices = instance->slices;
    attributes->memory_mib = instance->memory_mib;
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(void *handle, unsigned id, void **gpu_instance) {
    DEVICE(handle)
    for (unsigned i = 0; i < INSTANCES; i++)
        if (device->instances[i].used && device->instances[i].gpu_instance == id) {
            *gpu_instance = (char *)handle + 1 + i;
            return SUCCESS;
        }
    return NOT_FOUND;
}

struct gpu_instance_info {
    void *device;
    unsigned id, profile, start, size;
};

int nvmlGpuInstanceGetInfo(void *gpu_instance, struct gpu_instance_info *info) {
    DEVICE_OR_INSTANCE(gpu_instance)
    if (!instance)
        return INVALID_ARGUMENT;
    *info = (struct gpu_instance_info){handle_of((unsigned)(device - state->devices)), instance->gpu_instance, 0,
                                       instance->start, instance->size};
    return SUCCESS;
}
