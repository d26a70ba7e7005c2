/* SPDX-License-Identifier: MIT */
#include "unwind/unwind.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/pool.h"
#include "perfdata/sample.h"
#include "tasks/maps.h"
#include "unwind/unwind_steps.h"

enum {
	NR_PROCESSES = 8,
	SOME_PID = 1, /* libdwfl wants one; nothing is asked of the kernel */
};

/* An object that was reported to libdwfl. In the unwinder's pool. */
struct module_data {
	struct module_data *next; /* of the same process */
	const void *object;
	uint64_t ip, address; /* a mapped address of it, and what that is inside the object */
};

/* A process as libdwfl knows it: opened objects and their tables. Made anew when one of them went away. */
struct process {
	struct maps *maps;   /* a reference; NULL: not in use */
	uint64_t generation; /* of the maps, when the modules were seen to be still there */
	struct module_data *modules;
	Dwfl *dwfl;
	bool attached;
	struct unwinder *unwinder;
};

struct unwinder {
	struct unwind_objects objects;
	const struct unwind_registers *registers; /* of the recorded machine */
	struct unwind_steps *steps;               /* NULL: libdwfl makes each step */
	struct process processes[NR_PROCESSES];
	struct pool pool; /* what is known of modules */
	/* the sample that is being unwound */
	const struct sample *sample;
	uint64_t stack_start;
	uint64_t *ips;
	unsigned nr, max;
};

/*
 * Unwind tables are in what was mapped. Separate debug information may have more, but seldom does, takes long
 * to read, and libdwfl, looking for it by itself, would ask servers on the network.
 */
static int find_debug(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
		      const char *link, GElf_Word crc, char **ret_path)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret_path;
	return -1;
}

static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **ret_path,
		    Elf **ret_elf)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)ret_path, (void)ret_elf;
	return -1; /* it is given when the module is reported */
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf, .find_debuginfo = find_debug, .section_address = dwfl_offline_section_address};

/* Where the first segment of an object lies whose byte `map->pgoff` is mapped at `map->start`. false: no such
 * object. */
static bool load_address(int fd, const struct map *map, GElf_Addr *ret)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	bool first = true, found = false;
	GElf_Addr first_page = 0;
	size_t nr = 0;

	if (elf && elf_getphdrnum(elf, &nr))
		nr = 0;
	for (size_t i = 0; i < nr; i++) {
		GElf_Phdr load;
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_LOAD)
			continue;
		uint64_t align = load.p_align > 1 ? load.p_align : 1;
		if (first)
			first_page = load.p_vaddr & -align;
		first = false;
		uint64_t from = load.p_offset & -align;
		if (!found && map->pgoff >= from && map->pgoff < load.p_offset + load.p_filesz) {
			*ret = map->start - (map->pgoff - load.p_offset + load.p_vaddr) + first_page;
			found = true;
		}
	}
	elf_end(elf);
	return found;
}

/* Reports the object at `ip` to libdwfl, if there is one and it was not reported yet. */
static Dwfl_Module *process_module(struct process *process, uint64_t ip)
{
	struct unwinder *unwinder = process->unwinder;
	Dwfl_Module *module = dwfl_addrmodule(process->dwfl, ip);
	const struct map *map = module ? NULL : maps_find(process->maps, ip);
	GElf_Addr address;
	char name[32]; /* libdwfl takes objects of one name and place as one */

	if (!map)
		return module;
	AUTO_FD int fd = unwinder->objects.open(map->object, unwinder->objects.ctx);
	struct module_data *data = fd >= 0 ? pool_take(&unwinder->pool, sizeof(*data)) : NULL;
	if (!data || !load_address(fd, map, &address))
		return NULL;
	snprintf(name, sizeof(name), "%p", map->object);
	module = dwfl_report_elf(process->dwfl, name, name, fd, address, false);
	if (!module)
		return NULL;
	take_fd(&fd); /* libdwfl's now */
	*data = (struct module_data){process->modules, map->object, map->start, map_address(map, map->start)};
	process->modules = data;
	return dwfl_addrmodule(process->dwfl, ip);
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl;
	if (*thread_arg)
		return 0;
	*thread_arg = arg;
	return dwfl_pid(dwfl);
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl, (void)tid;
	*thread_arg = arg;
	return true;
}

/* Only what the sample has of the stack. */
static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *arg)
{
	const struct unwinder *unwinder = ((struct process *)arg)->unwinder;
	const struct span *stack = &unwinder->sample->user_stack;
	uint64_t offset = address - unwinder->stack_start;

	(void)dwfl;
	if (address < unwinder->stack_start || stack->len < sizeof(*ret) || offset > stack->len - sizeof(*ret))
		return false;
	memcpy(ret, (const char *)stack->ptr + offset, sizeof(*ret));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct unwinder *unwinder = ((struct process *)arg)->unwinder;
	const struct unwind_registers *registers = unwinder->registers;
	Dwarf_Word values[UNWIND_REGISTERS_MAX];
	uint64_t ip;

	if (!unwind_register(unwinder->sample, registers->ip, &ip))
		return false;
	dwfl_thread_state_register_pc(thread, ip);
	for (unsigned i = 0; i < registers->nr; i++)
		if (!unwind_register(unwinder->sample, registers->sampled[i], &values[i]))
			return false;
	return dwfl_thread_state_registers(thread, 0, registers->nr, values);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int take_frame(Dwfl_Frame *frame, void *arg)
{
	struct process *process = arg;
	struct unwinder *unwinder = process->unwinder;
	Dwarf_Addr pc;
	bool activation;

	if (!dwfl_frame_pc(frame, &pc, NULL) || !pc || unwinder->nr == unwinder->max)
		return DWARF_CB_ABORT;
	/* The step to the next frame needs the object, and so does the question whether this one is a caller.
	 */
	process_module(process, pc);
	process_module(process, pc - 1);
	if (!dwfl_frame_pc(frame, &pc, &activation))
		return DWARF_CB_ABORT;
	if (!activation)
		pc--;
	unwinder->ips[unwinder->nr++] = pc;
	return DWARF_CB_OK;
}

static void process_close(struct process *process)
{
	if (process->dwfl)
		dwfl_end(process->dwfl);
	maps_unref(process->maps);
	*process = (struct process){0};
}

struct unwinder *unwinder_new(const struct unwind_objects *objects, const char *arch)
{
	struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (unwinder) {
		unwinder->objects = *objects;
		unwinder->registers = unwind_registers_of(arch);
		if (unwinder->registers && unwinder->registers->rows)
			unwinder->steps = unwind_steps_new(objects->open, objects->ctx);
	}
	return unwinder;
}

void unwinder_use_library(struct unwinder *unwinder)
{
	unwind_steps_free(unwinder->steps);
	unwinder->steps = NULL;
}

void unwinder_free(struct unwinder *unwinder)
{
	if (!unwinder)
		return;
	for (size_t i = 0; i < NR_PROCESSES; i++)
		process_close(&unwinder->processes[i]);
	unwind_steps_free(unwinder->steps);
	pool_fini(&unwinder->pool);
	free(unwinder);
}

/* Whether the reported modules are still mapped there; new maps are reported when they are needed. */
static bool process_is_current(struct process *process, struct maps *maps)
{
	if (process->maps != maps)
		return false;
	if (process->generation == maps_generation(maps))
		return true;
	for (const struct module_data *data = process->modules; data; data = data->next) {
		const struct map *map = maps_find(maps, data->ip);
		if (!map || map->object != data->object || map_address(map, data->ip) != data->address)
			return false;
	}
	process->generation = maps_generation(maps);
	return true;
}

/* NULL: libdwfl failed. */
static struct process *process_of(struct unwinder *unwinder, struct maps *maps)
{
	struct process *process = &unwinder->processes[(uintptr_t)maps / 64 % NR_PROCESSES];

	if (process_is_current(process, maps))
		return process;
	process_close(process);
	process->dwfl = dwfl_begin(&callbacks);
	if (!process->dwfl)
		return NULL;
	process->maps = maps_ref(maps);
	process->generation = maps_generation(maps);
	process->unwinder = unwinder;
	return process;
}

/* libdwfl wants to know the machine, from any object of the process: the one at `ip`, or else the first that
 * opens. */
static bool process_attach(struct process *process, uint64_t ip)
{
	Dwfl_Module *module = process_module(process, ip);
	size_t nr = 0;
	const struct map *maps = module || process->attached ? NULL : maps_list(process->maps, &nr);

	for (size_t i = 0; i < nr && !module; i++)
		module = process_module(process, maps[i].start);
	if (!process->attached && module)
		process->attached = dwfl_attach_state(process->dwfl, NULL, SOME_PID, &thread_callbacks, process);
	return process->attached;
}

/* libdwfl has more rules than cfi_rows, and takes far longer. */
static unsigned library_chain(struct unwinder *unwinder, struct maps *maps, const struct sample *sample, uint64_t ip)
{
	struct process *process = process_of(unwinder, maps);

	unwinder->sample = sample;
	unwinder->nr = 0;
	if (process && process_attach(process, ip))
		dwfl_getthread_frames(process->dwfl, SOME_PID, take_frame, process);
	if (!unwinder->nr && ip)
		unwinder->ips[unwinder->nr++] = ip;
	return unwinder->nr;
}

unsigned unwind_sample(struct unwinder *unwinder, struct maps *maps, const struct sample *sample, uint64_t *ret_ips,
		       unsigned max)
{
	const struct unwind_registers *registers = unwinder->registers;
	uint64_t ip, sp;

	if (!registers || sample->user_regs.abi != PERF_SAMPLE_REGS_ABI_64 || !sample->user_stack.len || !max ||
	    !unwind_register(sample, registers->ip, &ip) || !unwind_register(sample, registers->sp, &sp))
		return 0;
	unwinder->stack_start = sp;
	unwinder->ips = ret_ips;
	unwinder->max = max;
	struct steps_chain chain = {.ips = ret_ips, .max = max};
	if (unwinder->steps && unwind_steps(unwinder->steps, registers, maps, sample, &chain))
		return chain.nr;
	return library_chain(unwinder, maps, sample, ip);
}

/* Whether the function at `ip` still has its return address where the call put it; false without tables that say so. */
static bool return_address_is_in_register(struct process *process, uint64_t ip)
{
	Dwfl_Module *module = process_module(process, ip);
	Dwarf_Addr bias;
	Dwarf_CFI *cfi = module ? dwfl_module_eh_cfi(module, &bias) : NULL;
	Dwarf_Frame *frame = NULL;
	Dwarf_Op memory[3], *ops;
	size_t nr_ops;

	if (!cfi || dwarf_cfi_addrframe(cfi, ip - bias, &frame))
		return false;
	int column = dwarf_frame_info(frame, NULL, NULL, NULL);
	/* The register has its own value still: no operations, and not those of a value that is lost. */
	bool there = column >= 0 && !dwarf_frame_register(frame, column, memory, &ops, &nr_ops) && !ops && !nr_ops;
	free(frame);
	return there;
}

bool unwind_leaf_caller(struct unwinder *unwinder, struct maps *maps, const struct sample *sample, uint64_t ip,
			uint64_t *ret)
{
	const struct unwind_registers *registers = unwinder->registers;
	uint64_t caller;

	if (!registers || !registers->lr || sample->user_regs.abi != PERF_SAMPLE_REGS_ABI_64 ||
	    !unwind_register(sample, registers->lr, &caller) || !caller)
		return false;
	struct process *process = process_of(unwinder, maps);
	if (!process || !return_address_is_in_register(process, ip))
		return false;
	*ret = caller - 1;
	return true;
}
