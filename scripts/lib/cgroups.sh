# shellcheck shell=bash
# The cgroup below which a cluster's kubelet works: made in every hierarchy of version 1, or in the one of version 2.

CGROUP_MOUNT=/sys/fs/cgroup

cgroup_is_v2() { [[ -e $CGROUP_MOUNT/cgroup.controllers ]]; }

# Mount points of all hierarchies. Beside those of version 1 there may be one of version 2, without controllers, in
# which runc makes a group too.
cgroup_hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts; }

cgroup_create() {
  local name=$1 hierarchy file
  while read -r hierarchy; do
    mkdir -p "$hierarchy/$name"
    # A cpuset without processors and memory takes no process.
    for file in cpuset.cpus cpuset.mems; do
      [[ -e $hierarchy/$name/$file && -z $(<"$hierarchy/$name/$file") ]] || continue
      cgroup_is_v2 || cat "$hierarchy/$file" >"$hierarchy/$name/$file"
    done
  done < <(cgroup_hierarchies)
  if cgroup_is_v2; then cgroup_delegate "$CGROUP_MOUNT" && cgroup_delegate "$CGROUP_MOUNT/$name"; fi
}

# Hands every controller of a version 2 cgroup on to its children.
cgroup_delegate() {
  local controller
  for controller in $(<"$1/cgroup.controllers"); do
    echo "+$controller" >"$1/cgroup.subtree_control" || true
  done
}

# cgroup_processes NAME: pids in the cgroup and below, in any hierarchy.
cgroup_processes() {
  local hierarchy
  while read -r hierarchy; do
    [[ ! -d $hierarchy/$1 ]] || find "$hierarchy/$1" -name cgroup.procs -exec cat {} +
  done < <(cgroup_hierarchies) 2>/dev/null | sort -un
}

cgroup_remove() {
  local hierarchy
  while read -r hierarchy; do
    [[ ! -d $hierarchy/$1 ]] || find "$hierarchy/$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done < <(cgroup_hierarchies)
}
