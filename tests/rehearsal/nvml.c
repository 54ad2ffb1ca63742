/* NVIDIA's management library without a driver: it answers from a file of readings.
 *
 * The variable REPLAYED_NVML names a folder with a file `0`, `1`, ... for each device, with lines
 * `key value` in NVML's own units. A file is read at every call, so that a new file changes what
 * the device shows. A device whose file has `lost 1` has fallen off the bus. A key that is
 * missing is a reading that the device does not support. The types are those of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, LOST = 15 };
enum { POWER_AVERAGE = 185, POWER_INSTANT = 186, UNSIGNED_INT = 1 };
typedef unsigned long long u64;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory2;
typedef struct { unsigned pid; u64 memory; unsigned instance, compute; } Process;
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, status;
    union { double real; unsigned number; u64 large; } value;
} Field;
typedef struct { unsigned number; } *Device;

#define MOST 64
static unsigned devices[MOST];

static FILE *readings(unsigned device) {
    const char *folder = getenv("REPLAYED_NVML");
    char path[4096];
    snprintf(path, sizeof path, "%s/%u", folder ? folder : "", device);
    return fopen(path, "r");
}

static int text(Device device, const char *key, char *value, unsigned size) {
    FILE *file = readings(device->number);
    char line[256];
    int status = NOT_SUPPORTED;
    if (!file) return LOST;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = 0;
        if (!strcmp(line, "lost")) { status = LOST; break; }
        if (!strcmp(line, key)) {
            snprintf(value, size, "%s", blank + 1);
            status = SUCCESS;
        }
    }
    fclose(file);
    return status;
}

static int number(Device device, const char *key, u64 *value) {
    char found[64];
    int status = text(device, key, found, sizeof found);
    if (status == SUCCESS) *value = strtoull(found, NULL, 10);
    return status;
}

static int small(Device device, const char *key, unsigned *value) {
    u64 found = 0;
    int status = number(device, key, &found);
    if (status == SUCCESS) *value = (unsigned)found;
    return status;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int status) {
    return status == LOST ? "GPU is lost" : status == NOT_SUPPORTED ? "Not Supported" : "Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    snprintf(version, size, "580.65.06");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    for (*count = 0; *count < MOST; ++*count) {
        FILE *file = readings(*count);
        if (!file) break;
        fclose(file);
    }
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    unsigned count;
    nvmlDeviceGetCount_v2(&count);
    if (index >= count) return INVALID_ARGUMENT;
    devices[index] = index;
    *device = (Device)&devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    unsigned count;
    char found[96];
    nvmlDeviceGetCount_v2(&count);
    for (unsigned i = 0; i < count; i++) {
        nvmlDeviceGetHandleByIndex_v2(i, device);
        if (text(*device, "uuid", found, sizeof found) == SUCCESS && !strcmp(found, uuid))
            return SUCCESS;
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetName(Device device, char *name, unsigned size) {
    return text(device, "name", name, size);
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
    char found[16];
    int status = text(device, "compute_capability", found, sizeof found);
    if (status == SUCCESS) sscanf(found, "%d.%d", major, minor);
    return status;
}

int nvmlDeviceGetMaxPcieLinkGeneration(Device device, unsigned *generation) {
    return small(device, "pcie_generation", generation);
}

int nvmlDeviceGetMaxPcieLinkWidth(Device device, unsigned *width) {
    return small(device, "pcie_width", width);
}

int nvmlDeviceGetTotalEnergyConsumption(Device device, u64 *millijoules) {
    return number(device, "energy_mj", millijoules);
}

int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) {
    return small(device, "power_average_mw", milliwatts);
}

int nvmlDeviceGetFieldValues(Device device, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        Field *one = &fields[i];
        const char *key = one->field == POWER_INSTANT   ? "power_mw"
                          : one->field == POWER_AVERAGE ? "power_average_mw"
                                                        : "no such field";
        one->type = UNSIGNED_INT;
        one->status = small(device, key, &one->value.number);
        if (one->status == LOST) return LOST;
    }
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device device, Utilization *rates) {
    rates->memory = 0;
    return small(device, "utilization", &rates->gpu);
}

int nvmlDeviceGetMemoryInfo_v2(Device device, Memory2 *memory) {
    int status = number(device, "memory_used", &memory->used);
    if (status == SUCCESS) status = number(device, "memory_reserved", &memory->reserved);
    if (status == SUCCESS) status = number(device, "memory_total", &memory->total);
    memory->free = memory->total - memory->reserved - memory->used;
    return status;
}

int nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
    Memory2 found;
    int status = nvmlDeviceGetMemoryInfo_v2(device, &found);
    *memory = (Memory){found.total, found.free, found.used + found.reserved};
    return status;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *processes) {
    u64 pid = 0;
    int status = number(device, "pid", &pid);
    if (status == NOT_SUPPORTED) { *count = 0; return SUCCESS; }
    if (status != SUCCESS) return status;
    if (!processes) { *count = 1; return INSUFFICIENT_SIZE; }
    *count = 1;
    processes->pid = (unsigned)pid;
    processes->instance = processes->compute = 0xFFFFFFFF;
    return number(device, "process_memory", &processes->memory);
}

int nvmlDeviceGetTemperature(Device device, int sensor, unsigned *celsius) {
    return sensor ? INVALID_ARGUMENT : small(device, "temperature", celsius);
}

int nvmlDeviceGetClockInfo(Device device, int which, unsigned *megahertz) {
    char key[32];
    snprintf(key, sizeof key, "clock_%d", which);
    return small(device, key, megahertz);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device device, u64 *reasons) {
    return number(device, "clocks_event_reasons", reasons);
}

int nvmlDeviceGetPcieThroughput(Device device, int which, unsigned *kilobytes) {
    char key[32];
    snprintf(key, sizeof key, "pcie_kb_per_s_%d", which);
    return small(device, key, kilobytes);
}
