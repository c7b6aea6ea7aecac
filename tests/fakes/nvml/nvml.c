/* A small libnvidia-ml.so.1 for tests: answers from the text file named by GPU_DRA_FAKE_NVML, read anew at each call, so
 * that a test can change the hardware while somebody is asking. The format is written by __init__.py:
 *
 *   driver VERSION CUDA                       580.105.08 13000
 *   gpu PCI UUID MINOR MODULE MAJOR MINOR ARCHITECTURE BRAND BYTES MIG SWITCHED NAME   MIG is -1 where there is none
 *   pair I J LINKS                            NVLinks between two GPUs
 *   fabric I UUID CLIQUE                      32 hexadecimal digits
 *   mig I UUID GI CI MIB MULTIPROCESSORS NAME
 *   fault I FUNCTION WHAT                     I is * for calls without a GPU; FUNCTION may be *; WHAT is hang, crash or a number
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_GPUS 128
#define MAX_MIGS 8
#define MAX_FAULTS 64
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15 };

typedef struct { char uuid[96], name[96]; int gi, ci, mib, multiprocessors, parent; } Mig;
typedef struct {
    char pci[32], uuid[96], name[256], cluster[40];
    int minor, module, major, cc_minor, architecture, brand, mig, switched, clique, migs;
    unsigned long long memory;
    Mig mig_devices[MAX_MIGS];
} Gpu;
typedef struct { char gpu[8], function[64], what[16]; } Fault;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } Pci;

static Gpu gpus[MAX_GPUS];
static Fault faults[MAX_FAULTS];
static int count, fault_count, pairs[MAX_GPUS][MAX_GPUS], cuda;
static char driver[64];

static void load(void) {
    char line[1024];
    FILE *file = fopen(getenv("GPU_DRA_FAKE_NVML") ? getenv("GPU_DRA_FAKE_NVML") : "", "r");
    if (!file) return;
    count = fault_count = 0;
    memset(pairs, 0, sizeof pairs);
    while (fgets(line, sizeof line, file)) {
        Gpu *gpu = &gpus[count < MAX_GPUS ? count : 0];
        Mig mig = {0};
        Fault *fault = &faults[fault_count < MAX_FAULTS ? fault_count : 0];
        int one, two, links;
        char cluster[40];
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "gpu ", 4)) {
            memset(gpu, 0, sizeof *gpu);
            /* A name may be anything, empty included. */
            if (sscanf(line, "gpu %31s %95s %d %d %d %d %d %d %llu %d %d %255[^\n]", gpu->pci, gpu->uuid, &gpu->minor, &gpu->module,
                       &gpu->major, &gpu->cc_minor, &gpu->architecture, &gpu->brand, &gpu->memory, &gpu->mig, &gpu->switched, gpu->name) >= 11)
                count++;
        } else if (sscanf(line, "pair %d %d %d", &one, &two, &links) == 3) {
            pairs[one][two] = pairs[two][one] = links;
        } else if (sscanf(line, "fabric %d %39s %d", &one, cluster, &links) == 3) {
            strcpy(gpus[one].cluster, cluster);
            gpus[one].clique = links;
        } else if (sscanf(line, "mig %d %95s %d %d %d %d %95[^\n]", &one, mig.uuid, &mig.gi, &mig.ci, &mig.mib, &mig.multiprocessors, mig.name) == 7) {
            mig.parent = one;
            gpus[one].mig_devices[gpus[one].migs++ % MAX_MIGS] = mig;
        } else if (sscanf(line, "fault %7s %63s %15s", fault->gpu, fault->function, fault->what) == 3) {
            fault_count++;
        } else {
            sscanf(line, "driver %63s %d", driver, &cuda);
        }
    }
    fclose(file);
}

/* What a call has to fail with, or OK; does not come back from a hang. */
static int fault_of(const Gpu *gpu, const char *function) {
    char number[8] = "*";
    load();
    if (gpu) snprintf(number, sizeof number, "%d", (int)(gpu - gpus));
    for (int at = 0; at < fault_count; at++) {
        if (strcmp(faults[at].gpu, number) || (strcmp(faults[at].function, "*") && strcmp(faults[at].function, function))) continue;
        if (!strcmp(faults[at].what, "hang")) {
            signal(SIGTERM, SIG_IGN);
            for (;;) sleep(1000);
        }
        if (!strcmp(faults[at].what, "crash")) raise(SIGSEGV);
        return atoi(faults[at].what);
    }
    return OK;
}

#define CHECK(gpu) do { int code_ = fault_of(gpu, __func__); if (code_) return code_; } while (0)
#define SET(type, value) do { CHECK(gpu); *(type *)out = (value); return OK; } while (0)

static int text(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size) return 7; /* insufficient size */
    strcpy(out, value);
    return OK;
}

/* A handle is a GPU's place; one of a MIG device is its own address. */
static int is_gpu(const void *handle) { return (const Gpu *)handle >= gpus && (const Gpu *)handle < gpus + MAX_GPUS && ((const char *)handle - (const char *)gpus) % sizeof(Gpu) == 0; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; CHECK(NULL); return OK; }
int nvmlInit_v2(void) { CHECK(NULL); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { static char words[32]; snprintf(words, sizeof words, "error %d", code); return words; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { CHECK(NULL); return text(out, size, driver); }
int nvmlSystemGetCudaDriverVersion(int *out) { CHECK(NULL); *out = cuda; return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) { CHECK(NULL); *out = count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    CHECK(NULL);
    if ((int)index >= count) return INVALID;
    *out = &gpus[index];
    return fault_of(&gpus[index], __func__);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **out) {
    CHECK(NULL);
    for (int at = 0; at < count; at++) {
        const char *own = gpus[at].pci;
        /* The usual spellings differ in the digits of the domain and in case. */
        if (!strcasecmp(own + strlen(own) - 12, pci + strlen(pci) - 12)) {
            *out = &gpus[at];
            return fault_of(&gpus[at], __func__);
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *out) {
    CHECK(gpu);
    memset(out, 0, sizeof *out);
    strncpy(out->bus_id, gpu->pci, sizeof out->bus_id - 1);
    return OK;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) {
    if (!is_gpu(gpu)) return text(out, size, ((Mig *)gpu)->uuid);
    CHECK(gpu);
    return text(out, size, strcmp(gpu->uuid, "-") ? gpu->uuid : "");
}

int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned size) {
    if (!is_gpu(gpu)) return text(out, size, ((Mig *)gpu)->name);
    CHECK(gpu);
    return text(out, size, gpu->name);
}

int nvmlDeviceGetIndex(Gpu *gpu, void *out) { SET(unsigned, (unsigned)(gpu - gpus)); }
int nvmlDeviceGetMinorNumber(Gpu *gpu, void *out) { SET(unsigned, gpu->minor); }
int nvmlDeviceGetModuleId(Gpu *gpu, void *out) { if (gpu->module < 0) return NOT_SUPPORTED; SET(unsigned, gpu->module); }
int nvmlDeviceGetBrand(Gpu *gpu, void *out) { SET(unsigned, gpu->brand); }
int nvmlDeviceGetArchitecture(Gpu *gpu, void *out) { SET(unsigned, gpu->architecture); }
int nvmlDeviceGetSerial(Gpu *gpu, char *out, unsigned size) { CHECK(gpu); return text(out, size, "1650522003820"); }

int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) {
    CHECK(gpu);
    *major = gpu->major;
    *minor = gpu->cc_minor;
    return OK;
}

int nvmlDeviceGetMemoryInfo(Gpu *gpu, unsigned long long *out) {
    CHECK(gpu);
    out[0] = out[1] = gpu->memory;
    out[2] = 0;
    return OK;
}

int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *now, unsigned *pending) {
    CHECK(gpu);
    if (gpu->mig < 0) return NOT_SUPPORTED;
    *now = *pending = gpu->mig;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, void *out) { SET(unsigned, gpu->mig < 0 ? 0 : MAX_MIGS); }

int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, void **out) {
    CHECK(gpu);
    /* Places may be empty: every second one is, as after instances were destroyed. */
    if (index % 2 || (int)index / 2 >= gpu->migs) return NOT_FOUND;
    *out = &gpu->mig_devices[index / 2];
    return OK;
}

int nvmlDeviceGetGpuInstanceId(Mig *mig, unsigned *out) { *out = mig->gi; return OK; }
int nvmlDeviceGetComputeInstanceId(Mig *mig, unsigned *out) { *out = mig->ci; return OK; }

int nvmlDeviceGetAttributes_v2(Mig *mig, unsigned *out) {
    memset(out, 0, 40);
    out[0] = mig->multiprocessors;
    out[1] = 1;
    out[6] = out[7] = 1;
    *(unsigned long long *)(out + 8) = mig->mib;
    return OK;
}

/* The peer at the other end of a link, counting the links of each pair in order; -1 where there is no such link. */
static int peer_of(const Gpu *gpu, unsigned link) {
    int own = (int)(gpu - gpus), most = 0;
    if (gpu->switched) {
        for (int other = 0; other < count; other++) most = pairs[own][other] > most ? pairs[own][other] : most;
        return (int)link < most ? own : -1;
    }
    for (int other = 0; other < count; other++) {
        if ((int)link < pairs[own][other]) return other;
        link -= pairs[own][other];
    }
    return -1;
}

int nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned link, unsigned *out) {
    CHECK(gpu);
    if (peer_of(gpu, link) < 0) return link ? INVALID : NOT_SUPPORTED;
    *out = 1;
    return OK;
}

int nvmlDeviceGetNvLinkVersion(Gpu *gpu, unsigned link, unsigned *out) { CHECK(gpu); (void)link; *out = 4; return OK; }
int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu *gpu, unsigned link, unsigned *out) { CHECK(gpu); (void)link; *out = gpu->switched ? 2 : 0; return OK; }

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *gpu, unsigned link, Pci *out) {
    CHECK(gpu);
    memset(out, 0, sizeof *out);
    strcpy(out->bus_id, gpu->switched ? "FFFFFFFF:FF:FF.0" : gpus[peer_of(gpu, link)].pci);
    return OK;
}

int nvmlDeviceGetP2PStatus(Gpu *gpu, Gpu *other, unsigned index, unsigned *out) {
    CHECK(gpu);
    (void)index;
    *out = pairs[gpu - gpus][other - gpus] ? 0 : 5;
    return OK;
}

int nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, unsigned char *out) {
    CHECK(gpu);
    if (!gpu->cluster[0]) return NOT_SUPPORTED;
    for (int at = 0; at < 16; at++) {
        unsigned byte = 0;
        sscanf(gpu->cluster + 2 * at, "%2x", &byte);
        out[4 + at] = (unsigned char)byte;
    }
    *(uint32_t *)(out + 20) = OK;
    *(uint32_t *)(out + 24) = gpu->clique;
    *(uint32_t *)(out + 28) = 3;
    return OK;
}
