/* Values by their numbers, many by one call. */
#include "session.h"

enum { FIELD_VALUES_UNSIGNED = 1, FIELD_VALUES_LONG_LONG = 3 };
enum {
    FIELD_ECC_UNCORRECTED = 4,
    FIELD_LINK_COUNT = 91,
    FIELD_REMAP_PENDING = 144,
    FIELD_REMAP_FAILED = 145,
    FIELD_LINK_STATE = 165,
    FIELD_RECOVERY_ACTION = 230
};

struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, result;
    union {
        unsigned number;
        unsigned long long long_number;
    } value;
};

static int number_of(const struct device *device, uint32_t field, uint32_t scope, unsigned *number) {
    int ecc = device->ecc_supported;
    switch (field) {
    case FIELD_REMAP_PENDING:
        *number = device->remap_pending;
        return ecc ? SUCCESS : NOT_SUPPORTED;
    case FIELD_REMAP_FAILED:
        *number = device->remap_failed;
        return ecc ? SUCCESS : NOT_SUPPORTED;
    case FIELD_RECOVERY_ACTION:
        *number = device->recovery_action;
        return SUCCESS;
    case FIELD_LINK_COUNT:
        *number = link_count(device);
        return *number ? SUCCESS : NOT_SUPPORTED;
    case FIELD_LINK_STATE:
        if (scope >= link_count(device))
            return INVALID_ARGUMENT;
        *number = device->links[scope].state == LINK_UP;
        return SUCCESS;
    default:
        return NOT_SUPPORTED;
    }
}

static int long_number_of(const struct device *device, uint32_t field, unsigned long long *number) {
    int ecc = device->ecc_supported && device->ecc_enabled;
    switch (field) {
    case FIELD_ECC_UNCORRECTED:
        *number = device->ecc_uncorrected;
        return ecc ? SUCCESS : NOT_SUPPORTED;
    default:
        return NOT_SUPPORTED;
    }
}

static void write_value(const struct device *device, struct field_value *value) {
    char name[32];
    snprintf(name, sizeof name, "field %u", value->field);
    value->result = (uint32_t)failure_of(name);
    if (value->result)
        return;
    unsigned number = 0;
    value->type = FIELD_VALUES_UNSIGNED;
    value->result = (uint32_t)number_of(device, value->field, value->scope, &number);
    value->value.number = number;
    unsigned long long long_number;
    if (value->result == NOT_SUPPORTED && !long_number_of(device, value->field, &long_number)) {
        value->result = SUCCESS;
        value->type = FIELD_VALUES_LONG_LONG;
        value->value.long_number = long_number;
    }
}

int nvmlDeviceGetFieldValues(void *handle, int count, struct field_value *values) {
    DEVICE(handle)
    for (int i = 0; i < count; i++)
        write_value(device, &values[i]);
    return SUCCESS;
}
