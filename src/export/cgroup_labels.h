/* SPDX-License-Identifier: MIT */
/*
 * cgroup_labels: which unit, container and pod a cgroup is, by its path. No state.
 *
 * Known are the names that systemd, docker, podman, containerd, cri-o, lxc and the kubelet give to cgroups. Sources:
 * systemd.slice(5), systemd.scope(5); kubernetes pkg/kubelet/cm ("kubepods.slice/kubepods-burstable.slice/
 * kubepods-burstable-pod<uid>.slice", "kubepods/burstable/pod<uid>"); runc libcontainer/cgroups ("docker-<id>.scope").
 */
#pragma once

enum cgroup_label { LABEL_UNIT, LABEL_CONTAINER, LABEL_POD, NR_CGROUP_LABELS };

/* Each "" where there is none. */
struct cgroup_labels {
	char texts[NR_CGROUP_LABELS][128];
};

/* "unit", "container", "pod" */
extern const char *const cgroup_label_names[NR_CGROUP_LABELS];

void cgroup_labels_of(const char *path, struct cgroup_labels *ret);
