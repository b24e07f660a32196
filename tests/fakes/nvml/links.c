/* NVLinks, and the fabric that they make. */
#include "session.h"

unsigned link_count(const struct device *device) {
    unsigned count = 0;
    while (count < LINKS && device->links[count].state != LINK_ABSENT)
        count++;
    return count;
}

/* The same as DEVICE, for a function about one link that is there. */
#define LINK(handle, number)                                                                                           \
    DEVICE(handle)                                                                                                     \
    if (number >= link_count(device))                                                                                  \
        return link_count(device) ? INVALID_ARGUMENT : NOT_SUPPORTED;                                                  \
    struct link *link = &device->links[number];

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned number, unsigned *type) {
    LINK(handle, number)
    *type = link->remote_type;
    return link->state == LINK_UP ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned number, struct pci *pci) {
    LINK(handle, number)
    if (link->state != LINK_UP)
        return NOT_SUPPORTED;
    if (link->remote_type == 0)
        write_pci(&state->devices[link->remote_slot], pci);
    else
        memset(pci, 0, sizeof *pci);
    return SUCCESS;
}

struct fabric_v2 {
    unsigned version;
    uint8_t cluster[16];
    unsigned status, clique, state, health;
};

int nvmlDeviceGetGpuFabricInfoV(void *handle, struct fabric_v2 *fabric) {
    DEVICE(handle)
    if (fabric->version != 0x02000024)
        return VERSION_MISMATCH;
    memcpy(fabric->cluster, device->fabric_cluster, sizeof fabric->cluster);
    fabric->status = SUCCESS;
    fabric->clique = device->fabric_clique;
    fabric->state = device->fabric_state;
    fabric->health = 0;
    return SUCCESS;
}
