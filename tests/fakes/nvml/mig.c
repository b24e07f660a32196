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
