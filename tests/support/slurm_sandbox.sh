#!/bin/bash
# A real Slurm on loopback from extracted Debian packages (6 MB, as root), for one node.
#
#   slurm_sandbox.sh FOLDER    starts it; FOLDER/env is to be sourced, FOLDER/*.pid are to be killed
set -e
mkdir -p "${1:?usage: slurm_sandbox.sh FOLDER}"
folder=$(realpath "$1")
mkdir -p "$folder"/{debs,root,etc,state,spool,log}
cd "$folder/debs"
apt-get download slurmctld slurmd slurm-client slurm-wlm-basic-plugins libmunge2 libslurm38 libpmix2 \
    libhwloc15 libjson-c5 libyaml-0-2 liblua5.1-0 libdbus-1-3 libfreeipmi17 libnuma1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" ../root; done
root=$folder/root
libraries=$root/usr/lib/x86_64-linux-gnu
host=$(hostname -s)
cat > "$folder/etc/slurm.conf" <<END
ClusterName=t
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
PluginDir=$libraries/slurm-wlm
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=8000 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
cat > "$folder/env" <<END
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm
export SLURM_CONF=$folder/etc/slurm.conf PATH=$root/usr/bin:$PATH
END
. "$folder/env"
"$root/usr/sbin/slurmctld-wlm" -D -f "$SLURM_CONF" > "$folder/log/slurmctld.out" 2>&1 &
sleep 2
"$root/usr/sbin/slurmd-wlm" -D -d "$root/usr/sbin/slurmstepd-wlm" -f "$SLURM_CONF" \
    > "$folder/log/slurmd.out" 2>&1 &
sleep 3
