/*
 * A libnvidia-ml.so.1 for tests: what the agent uses of NVML, answered from a text file instead of a driver.
 *
 * The file is named by GPU_DRA_FAKE_NVML and read again whenever it was replaced, so that a test changes the hardware under
 * a running process. Its format is told in __init__.py, which writes it. What a board's section does not say, the board does
 * not support. Where the real library has a quirk that a caller may trip over, it is here and a comment says so.
 *
 * Each thread keeps its own copy of the file: there are no locks, so a call that hangs holds nobody else.
 */

#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 128, MAX_LINKS = 36, MAX_MIGS = 8, MAX_FAULTS = 24, MAX_XIDS = 256 };
enum { XID_EVENT = 8, P2P_NVLINK = 2, P2P_NOT_SUPPORTED = 5, NOT_ATTRIBUTABLE = -1, EVENT_POLL_MS = 5 };
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
};

/* ---- The layouts of nvml.h, as pynvml has them. ---- */

/* A handle is a number dressed as a pointer: 'N', 0 or 1 + the slot of a MIG device, domain, bus, device. */
typedef void *Device;

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg_engines, ofa_engines, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};
struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health_mask;
    unsigned char health_summary; /* Since version 3. */
};
enum { FABRIC_V2 = 0x02000024, FABRIC_V3 = 0x03000028, MEMORY_V2 = 0x02000028 };
struct event_data {
    Device device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* ---- What the file says. ---- */

/* Not -1, which is among the odd values that a test may want answered. */
static const int64_t UNSAID = INT64_MIN;

struct fault {
    char function[64], what[16];
    unsigned value;
};
struct link {
    bool there, up, to_switch;
    uint64_t pci;
};
struct mig {
    bool there;
    unsigned gpu_instance, compute_instance;
    struct attributes attributes;
    char uuid[96], profile[32];
};
struct text {
    bool said;
    char value[512];
};
struct gpu {
    uint64_t pci;
    struct text uuid, name, serial;
    int64_t brand, architecture, cc_major, cc_minor, memory, minor, module, mig, nvlink_version, nvlinks, partition;
    bool has_fabric, lost;
    struct fabric_info fabric;
    struct link links[MAX_LINKS];
    struct mig migs[MAX_MIGS];
    struct fault faults[MAX_FAULTS];
    int fault_count;
};
struct xid {
    int64_t number, code, gpu_instance, compute_instance;
    uint64_t pci;
};
struct state {
    struct stat read_at;
    unsigned init;
    int64_t cuda;
    struct text driver;
    struct fault faults[MAX_FAULTS];
    int fault_count, gpu_count, xid_count;
    struct gpu gpus[MAX_GPUS];
    struct xid xids[MAX_XIDS];
};

static _Thread_local struct state state;
static atomic_int users;

static const struct {
    const char *word;
    size_t at;
} NUMBERS[] = {
    {"brand", offsetof(struct gpu, brand)},
    {"architecture", offsetof(struct gpu, architecture)},
    {"cc_major", offsetof(struct gpu, cc_major)},
    {"cc_minor", offsetof(struct gpu, cc_minor)},
    {"memory", offsetof(struct gpu, memory)},
    {"minor", offsetof(struct gpu, minor)},
    {"module", offsetof(struct gpu, module)},
    {"mig", offsetof(struct gpu, mig)},
    {"nvlink_version", offsetof(struct gpu, nvlink_version)},
    {"nvlinks", offsetof(struct gpu, nvlinks)},
    {"partition", offsetof(struct gpu, partition)},
};
enum { NUMBER_COUNT = sizeof NUMBERS / sizeof *NUMBERS };

static int64_t *number(struct gpu *gpu, int which)
{
    return (int64_t *)((char *)gpu + NUMBERS[which].at);
}

static void text(struct text *to, const char *value)
{
    to->said = true;
    snprintf(to->value, sizeof to->value, "%s", value);
}

/* Any usual spelling: a domain of any length or none, either case, with or without the function. */
static bool parse_pci(const char *spelling, uint64_t *pci)
{
    unsigned domain = 0, bus, device, function = 0;
    int end = 0;
    bool parsed = (sscanf(spelling, "%x:%x:%x%n", &domain, &bus, &device, &end) == 3 && end > 0) ||
                  (domain = 0, sscanf(spelling, "%x:%x%n", &bus, &device, &end) == 2 && end > 0);
    if (!parsed)
        return false;
    if (spelling[end] == '.') {
        int more = 0;
        if (sscanf(spelling + end, ".%x%n", &function, &more) != 1)
            return false;
        end += more;
    }
    *pci = (uint64_t)domain << 16 | bus << 8 | device;
    return !spelling[end] && bus <= 0xff && device <= 0x1f && !function;
}

static void read_fault(struct fault *faults, int *count, const char *rest)
{
    struct fault fault = {.value = 0};
    if (*count < MAX_FAULTS && sscanf(rest, "%63s %15s %u", fault.function, fault.what, &fault.value) >= 2)
        faults[(*count)++] = fault;
}

static void read_link(struct gpu *gpu, const char *rest)
{
    unsigned place;
    char peer[8], pci[32], up[8];
    struct link link = {.there = true};
    if (sscanf(rest, "%u %7s %31s %7s", &place, peer, pci, up) != 4 || place >= MAX_LINKS || !parse_pci(pci, &link.pci))
        return;
    link.up = !strcmp(up, "up");
    link.to_switch = !strcmp(peer, "switch");
    gpu->links[place] = link;
}

static void read_mig(struct gpu *gpu, const char *rest)
{
    unsigned slot;
    struct mig mig = {.there = true};
    struct attributes *has = &mig.attributes;
    int found = sscanf(rest, "%u %u %u %31s %95s %u %u %llu %u %u %u %u %u %u", &slot, &mig.gpu_instance,
                       &mig.compute_instance, mig.profile, mig.uuid, &has->gpu_slices, &has->compute_slices,
                       &has->memory_mb, &has->multiprocessors, &has->copy_engines, &has->decoders, &has->encoders,
                       &has->jpeg_engines, &has->ofa_engines);
    if (found == 14 && slot < MAX_MIGS)
        gpu->migs[slot] = mig;
}

static void read_fabric(struct gpu *gpu, const char *rest)
{
    char cluster[33] = "";
    gpu->has_fabric = sscanf(rest, "%u %32s %u", &gpu->fabric.state, cluster, &gpu->fabric.clique) == 3;
    for (int place = 0; place < 16; place++)
        sscanf(cluster + 2 * place, "%2hhx", &gpu->fabric.cluster[place]);
}

static void read_xid(const struct gpu *gpu, const char *rest)
{
    struct xid xid = {.pci = gpu->pci};
    if (state.xid_count < MAX_XIDS && sscanf(rest, "%ld %ld %ld %ld", &xid.number, &xid.code, &xid.gpu_instance,
                                             &xid.compute_instance) == 4)
        state.xids[state.xid_count++] = xid;
}

static void read_gpu(struct gpu *gpu, const char *word, const char *rest)
{
    if (!strcmp(word, "uuid"))
        text(&gpu->uuid, rest);
    else if (!strcmp(word, "name"))
        text(&gpu->name, rest);
    else if (!strcmp(word, "serial"))
        text(&gpu->serial, rest);
    else if (!strcmp(word, "lost"))
        gpu->lost = true;
    else if (!strcmp(word, "fault"))
        read_fault(gpu->faults, &gpu->fault_count, rest);
    else if (!strcmp(word, "link"))
        read_link(gpu, rest);
    else if (!strcmp(word, "migdevice"))
        read_mig(gpu, rest);
    else if (!strcmp(word, "fabric"))
        read_fabric(gpu, rest);
    else if (!strcmp(word, "xid"))
        read_xid(gpu, rest);
    else
        for (int which = 0; which < NUMBER_COUNT; which++)
            if (!strcmp(word, NUMBERS[which].word))
                *number(gpu, which) = strtoll(rest, NULL, 10);
}

static void read_machine(const char *word, const char *rest)
{
    if (!strcmp(word, "init"))
        state.init = (unsigned)strtoul(rest, NULL, 10);
    else if (!strcmp(word, "driver"))
        text(&state.driver, rest);
    else if (!strcmp(word, "cuda"))
        state.cuda = strtoll(rest, NULL, 10);
    else if (!strcmp(word, "fault"))
        read_fault(state.faults, &state.fault_count, rest);
}

/* Read the file if it is another than the one read last. Where there is none (any more) there is no driver. */
static void refresh(void)
{
    const char *path = getenv("GPU_DRA_FAKE_NVML");
    struct stat now;
    FILE *file;
    if (!path || stat(path, &now) || !(file = fopen(path, "r"))) {
        memset(&state, 0, sizeof state);
        state.init = DRIVER_NOT_LOADED;
        return;
    }
    const struct stat *before = &state.read_at;
    if (before->st_ino != now.st_ino || before->st_mtim.tv_sec != now.st_mtim.tv_sec ||
        before->st_mtim.tv_nsec != now.st_mtim.tv_nsec || before->st_size != now.st_size) {
        memset(&state, 0, sizeof state);
        state.read_at = now;
        state.cuda = UNSAID;
        struct gpu *gpu = NULL;
        for (char line[1024]; fgets(line, sizeof line, file);) {
            line[strcspn(line, "\n")] = '\0';
            char *rest = line + strcspn(line, " ");
            if (*rest)
                *rest++ = '\0';
            if (!strcmp(line, "gpu") && state.gpu_count < MAX_GPUS) {
                gpu = &state.gpus[state.gpu_count++];
                parse_pci(rest, &gpu->pci);
                for (int which = 0; which < NUMBER_COUNT; which++)
                    *number(gpu, which) = UNSAID;
            } else if (gpu) {
                read_gpu(gpu, line, rest);
            } else {
                read_machine(line, rest);
            }
        }
    }
    fclose(file);
}

/* ---- Faults. ---- */

static void sleep_ms(unsigned milliseconds)
{
    struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left)) {
    }
}

static void hang(bool deaf)
{
    /* Deaf as in the kernel, but for SIGKILL: nothing in user space can refuse that one. */
    sigset_t all;
    sigfillset(&all);
    if (deaf)
        sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;)
        sleep_ms(1000);
}

static void crash(void)
{
    /* Nobody wants the core file. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

/* A fault may leave out the version: nvmlDeviceGetCount is nvmlDeviceGetCount_v2, too. */
static bool meant(const char *fault, const char *function)
{
    size_t length = strlen(fault);
    return !strcmp(fault, "*") ||
           (!strncmp(fault, function, length) && (!function[length] || !strncmp(function + length, "_v", 2)));
}

static int fail(const struct fault *faults, int count, const char *function)
{
    for (const struct fault *fault = faults; fault < faults + count; fault++) {
        if (!meant(fault->function, function))
            continue;
        if (!strcmp(fault->what, "error"))
            return (int)fault->value;
        if (!strcmp(fault->what, "slow"))
            sleep_ms(fault->value);
        else if (!strcmp(fault->what, "crash"))
            crash();
        else
            hang(!strcmp(fault->what, "deaf"));
    }
    return SUCCESS;
}

/* ---- What most functions begin with. ---- */

static Device handle(uint64_t pci, unsigned mig)
{
    return (Device)((uint64_t)'N' << 56 | (uint64_t)mig << 48 | pci);
}

static struct gpu *find(uint64_t pci)
{
    for (int place = 0; place < state.gpu_count; place++)
        if (state.gpus[place].pci == pci)
            return &state.gpus[place];
    return NULL;
}

static int begin(const char *function)
{
    refresh();
    return users > 0 ? fail(state.faults, state.fault_count, function) : UNINITIALIZED;
}

/* For a function that answers about a device. Only a few know MIG devices, and those pass `mig`. */
static int begin_device(const char *function, Device device, struct gpu **gpu, struct mig **mig)
{
    int problem = begin(function);
    if (problem)
        return problem;
    uint64_t number = (uint64_t)device;
    unsigned slot = number >> 48 & 0xff;
    if (number >> 56 != 'N')
        return INVALID_ARGUMENT;
    *gpu = find(number & 0xffffffffffff);
    if (!*gpu || (*gpu)->lost)
        return GPU_IS_LOST;
    if (slot && !mig)
        return NOT_SUPPORTED;
    if (mig)
        *mig = slot ? &(*gpu)->migs[slot - 1] : NULL;
    if (slot && !(*mig)->there)
        return INVALID_ARGUMENT;
    return fail((*gpu)->faults, (*gpu)->fault_count, function);
}

#define BEGIN()                                                                                                         \
    do {                                                                                                                \
        int problem = begin(__func__);                                                                                  \
        if (problem)                                                                                                    \
            return problem;                                                                                             \
    } while (0)
#define BEGIN_DEVICE(device, mig)                                                                                       \
    struct gpu *gpu;                                                                                                    \
    do {                                                                                                                \
        int problem = begin_device(__func__, device, &gpu, mig);                                                        \
        if (problem)                                                                                                    \
            return problem;                                                                                             \
    } while (0)

static int answer_text(const char *value, char *to, unsigned length)
{
    /* The real one cuts nothing off. */
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(to, value);
    return SUCCESS;
}

static int answer_number(int64_t value, unsigned *to)
{
    if (value == UNSAID)
        return NOT_SUPPORTED;
    *to = (unsigned)value;
    return SUCCESS;
}

/* ---- The library and the machine. ---- */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    refresh();
    int problem = fail(state.faults, state.fault_count, "nvmlInit");
    if (problem || state.init)
        return problem ? problem : (int)state.init;
    users++;
    return SUCCESS;
}

int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
    BEGIN();
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    /* pynvml knows the others by itself. */
    return code == VERSION_MISMATCH ? "Argument version mismatch" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    BEGIN();
    return state.driver.said ? answer_text(state.driver.value, version, length) : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion(unsigned *version)
{
    BEGIN();
    return answer_number(state.cuda, version);
}

int nvmlSystemGetCudaDriverVersion_v2(unsigned *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    BEGIN();
    /* With those that are lost. */
    *count = (unsigned)state.gpu_count;
    return SUCCESS;
}

/* ---- Handles. ---- */

static int open_gpu(const char *function, const struct gpu *gpu, Device *device)
{
    /* A lost one has no handle to be had. */
    if (gpu->lost)
        return GPU_IS_LOST;
    *device = handle(gpu->pci, 0);
    return fail(gpu->faults, gpu->fault_count, function);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
    BEGIN();
    return index < (unsigned)state.gpu_count ? open_gpu(__func__, &state.gpus[index], device) : INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *spelling, Device *device)
{
    BEGIN();
    uint64_t pci;
    if (!spelling || !parse_pci(spelling, &pci))
        return INVALID_ARGUMENT;
    const struct gpu *gpu = find(pci);
    return gpu ? open_gpu(__func__, gpu, device) : NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device)
{
    BEGIN();
    for (const struct gpu *gpu = state.gpus; gpu < state.gpus + state.gpu_count; gpu++) {
        if (!strcmp(gpu->uuid.value, uuid))
            return open_gpu(__func__, gpu, device);
        for (unsigned slot = 0; slot < MAX_MIGS; slot++)
            if (gpu->mig == 1 && gpu->migs[slot].there && !strcmp(gpu->migs[slot].uuid, uuid)) {
                int problem = open_gpu(__func__, gpu, device);
                *device = handle(gpu->pci, slot + 1);
                return problem;
            }
    }
    return NOT_FOUND;
}

/* ---- What a GPU is. ---- */

#define ANSWER_NUMBER(function, field)                                                                                  \
    int function(Device device, unsigned *value)                                                                        \
    {                                                                                                                   \
        BEGIN_DEVICE(device, NULL);                                                                                     \
        return answer_number(gpu->field, value);                                                                        \
    }

ANSWER_NUMBER(nvmlDeviceGetMinorNumber, minor)
ANSWER_NUMBER(nvmlDeviceGetBrand, brand)
ANSWER_NUMBER(nvmlDeviceGetArchitecture, architecture)
ANSWER_NUMBER(nvmlDeviceGetModuleId, module)

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned length)
{
    struct mig *mig;
    BEGIN_DEVICE(device, &mig);
    if (!mig && !gpu->uuid.said)
        return NOT_SUPPORTED;
    return answer_text(mig ? mig->uuid : gpu->uuid.value, uuid, length);
}

int nvmlDeviceGetName(Device device, char *name, unsigned length)
{
    struct mig *mig;
    char whole[sizeof gpu->name.value + sizeof mig->profile + 5];
    BEGIN_DEVICE(device, &mig);
    if (!gpu->name.said)
        return NOT_SUPPORTED;
    if (!mig)
        return answer_text(gpu->name.value, name, length);
    /* The one place where the library itself says how a MIG device's profile is called. "-": as if it did not. */
    snprintf(whole, sizeof whole, "%s%s%s", gpu->name.value, *mig->profile == '-' ? "" : " MIG ",
             *mig->profile == '-' ? "" : mig->profile);
    return answer_text(whole, name, length);
}

int nvmlDeviceGetSerial(Device device, char *serial, unsigned length)
{
    BEGIN_DEVICE(device, NULL);
    return gpu->serial.said ? answer_text(gpu->serial.value, serial, length) : NOT_SUPPORTED;
}

int nvmlDeviceGetIndex(Device device, unsigned *index)
{
    BEGIN_DEVICE(device, NULL);
    *index = (unsigned)(gpu - state.gpus);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    BEGIN_DEVICE(device, NULL);
    if (gpu->cc_major == UNSAID)
        return NOT_SUPPORTED;
    *major = (int)gpu->cc_major;
    *minor = (int)gpu->cc_minor;
    return SUCCESS;
}

static int answer_memory(const struct gpu *gpu, const struct mig *mig, struct memory *memory)
{
    if (gpu->memory == UNSAID)
        return NOT_SUPPORTED;
    *memory = (struct memory){.total = mig ? mig->attributes.memory_mb << 20 : (unsigned long long)gpu->memory};
    memory->free = memory->total;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device device, struct memory *memory)
{
    struct mig *mig;
    BEGIN_DEVICE(device, &mig);
    return answer_memory(gpu, mig, memory);
}

int nvmlDeviceGetMemoryInfo_v2(Device device, struct memory_v2 *memory)
{
    struct mig *mig;
    struct memory plain = {.total = 0};
    BEGIN_DEVICE(device, &mig);
    if (memory->version != MEMORY_V2)
        return VERSION_MISMATCH;
    int problem = answer_memory(gpu, mig, &plain);
    if (!problem)
        *memory = (struct memory_v2){.version = MEMORY_V2, .total = plain.total, .free = plain.free};
    return problem;
}

static void answer_pci(uint64_t pci, struct pci_info *info)
{
    *info = (struct pci_info){.domain = (unsigned)(pci >> 16), .bus = pci >> 8 & 0xff, .device = pci & 0xff};
    info->device_id = 0x233010de;
    /* Eight digits and upper case, where the kernel has four and lower case; the old field holds only a short domain. */
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
             info->device & 0xff);
}

int nvmlDeviceGetPciInfo_v3(Device device, struct pci_info *info)
{
    BEGIN_DEVICE(device, NULL);
    answer_pci(gpu->pci, info);
    return SUCCESS;
}

/* ---- NVLink. ---- */

/* A board without NVLink does not support the question; beyond a board's last link the argument is invalid. */
static int link_of(const struct gpu *gpu, unsigned place, const struct link **link)
{
    if (gpu->nvlinks == UNSAID)
        return NOT_SUPPORTED;
    if (place >= (unsigned)gpu->nvlinks || place >= MAX_LINKS)
        return INVALID_ARGUMENT;
    *link = &gpu->links[place];
    return SUCCESS;
}

#define LINK(device, place)                                                                                             \
    const struct link *link;                                                                                            \
    BEGIN_DEVICE(device, NULL);                                                                                         \
    do {                                                                                                                \
        int problem = link_of(gpu, place, &link);                                                                       \
        if (problem)                                                                                                    \
            return problem;                                                                                             \
    } while (0)

int nvmlDeviceGetNvLinkState(Device device, unsigned place, unsigned *active)
{
    LINK(device, place);
    *active = link->there && link->up;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(Device device, unsigned place, unsigned *version)
{
    LINK(device, place);
    return answer_number(gpu->nvlink_version, version);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned place, unsigned *type)
{
    LINK(device, place);
    if (!link->up)
        return NOT_SUPPORTED;
    *type = link->to_switch ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned place, struct pci_info *info)
{
    LINK(device, place);
    if (!link->up)
        return NOT_SUPPORTED;
    answer_pci(link->pci, info);
    return SUCCESS;
}

static bool trained(const struct gpu *gpu, const struct gpu *peer)
{
    for (int place = 0; place < MAX_LINKS; place++) {
        const struct link *link = &gpu->links[place];
        if (link->up && (link->to_switch ? gpu->partition == peer->partition : link->pci == peer->pci))
            return true;
    }
    return false;
}

int nvmlDeviceGetP2PStatus(Device one, Device other, unsigned index, unsigned *status)
{
    struct gpu *peer;
    BEGIN_DEVICE(one, NULL);
    int problem = begin_device(__func__, other, &peer, NULL);
    if (problem)
        return problem;
    if (gpu == peer)
        return INVALID_ARGUMENT;
    /* In MIG mode there is no peer to peer at all. */
    bool ok = index == P2P_NVLINK && gpu->mig != 1 && peer->mig != 1 && trained(gpu, peer) && trained(peer, gpu);
    *status = ok ? 0 : P2P_NOT_SUPPORTED;
    return SUCCESS;
}

int nvmlDeviceGetGpuFabricInfoV(Device device, struct fabric_info *info)
{
    BEGIN_DEVICE(device, NULL);
    unsigned version = info->version;
    if (version != FABRIC_V2 && version != FABRIC_V3)
        return VERSION_MISMATCH;
    if (!gpu->has_fabric)
        return NOT_SUPPORTED;
    struct fabric_info answer = gpu->fabric;
    answer.version = version;
    answer.health_summary = 1;
    memcpy(info, &answer, version == FABRIC_V2 ? offsetof(struct fabric_info, health_summary) : sizeof answer);
    return SUCCESS;
}

/* ---- MIG. ---- */

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending)
{
    BEGIN_DEVICE(device, NULL);
    *pending = gpu->mig == 1;
    return answer_number(gpu->mig, current);
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count)
{
    BEGIN_DEVICE(device, NULL);
    *count = gpu->mig == 1 ? MAX_MIGS - 1 : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned slot, Device *mig)
{
    BEGIN_DEVICE(device, NULL);
    if (gpu->mig != 1)
        return NOT_SUPPORTED;
    if (slot >= MAX_MIGS)
        return INVALID_ARGUMENT;
    if (!gpu->migs[slot].there)
        return NOT_FOUND;
    *mig = handle(gpu->pci, slot + 1);
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(Device device, unsigned *is)
{
    struct mig *mig;
    BEGIN_DEVICE(device, &mig);
    *is = mig != NULL;
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *parent)
{
    struct mig *mig;
    BEGIN_DEVICE(device, &mig);
    *parent = handle(gpu->pci, 0);
    return mig ? SUCCESS : INVALID_ARGUMENT;
}

#define ANSWER_MIG(function, type, field)                                                                               \
    int function(Device device, type *value)                                                                            \
    {                                                                                                                   \
        struct mig *mig;                                                                                                \
        BEGIN_DEVICE(device, &mig);                                                                                     \
        if (!mig)                                                                                                       \
            return NOT_SUPPORTED;                                                                                       \
        *value = mig->field;                                                                                            \
        return SUCCESS;                                                                                                 \
    }

ANSWER_MIG(nvmlDeviceGetGpuInstanceId, unsigned, gpu_instance)
ANSWER_MIG(nvmlDeviceGetComputeInstanceId, unsigned, compute_instance)
ANSWER_MIG(nvmlDeviceGetAttributes_v2, struct attributes, attributes)

/* ---- Events. ---- */

struct event_set {
    int64_t last;
    int count;
    uint64_t gpus[MAX_GPUS];
};

int nvmlEventSetCreate(struct event_set **set)
{
    BEGIN();
    *set = calloc(1, sizeof **set);
    /* What happened before nobody is told. */
    for (int place = 0; *set && place < state.xid_count; place++)
        if (state.xids[place].number > (*set)->last)
            (*set)->last = state.xids[place].number;
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set)
{
    BEGIN();
    free(set);
    return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long *types)
{
    BEGIN_DEVICE(device, NULL);
    *types = XID_EVENT;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device device, unsigned long long types, struct event_set *set)
{
    BEGIN_DEVICE(device, NULL);
    if (!set || types & ~(unsigned long long)XID_EVENT)
        return set ? NOT_SUPPORTED : INVALID_ARGUMENT;
    if (set->count < MAX_GPUS)
        set->gpus[set->count++] = gpu->pci;
    return SUCCESS;
}

static bool watched(const struct event_set *set, uint64_t pci)
{
    for (int place = 0; place < set->count; place++)
        if (set->gpus[place] == pci)
            return true;
    return false;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned milliseconds)
{
    BEGIN();
    for (unsigned waited = 0;; waited += EVENT_POLL_MS) {
        const struct xid *next = NULL;
        refresh();
        for (const struct xid *xid = state.xids; xid < state.xids + state.xid_count; xid++)
            if (xid->number > set->last && watched(set, xid->pci) && (!next || xid->number < next->number))
                next = xid;
        if (next) {
            set->last = next->number;
            /* Both instances are 0xFFFFFFFF where the Xid is of no MIG device. */
            *data = (struct event_data){handle(next->pci, 0), XID_EVENT, (unsigned long long)next->code,
                                        (unsigned)next->gpu_instance, (unsigned)next->compute_instance};
            return SUCCESS;
        }
        for (int place = 0; place < set->count; place++) {
            const struct gpu *gpu = find(set->gpus[place]);
            if (!gpu || gpu->lost)
                return GPU_IS_LOST;
        }
        if (waited >= milliseconds)
            return TIMEOUT;
        sleep_ms(EVENT_POLL_MS);
    }
}
