#!/bin/sh
# Run once when the environment of envs/cntk.yaml is made, with its `python` first on PATH: by
# in_env.py, and by Snakemake under --use-conda, which looks for this file name.
#
# CNTK 2.5.1 is linked against Open MPI 1.10 (libmpi.so.12, libmpi_cxx.so.1), with which it
# trains on several machines. We train in one process, which calls none of it, but the loader
# wants every name. So this compiles a library of these names that stops the process, and says
# so, if one is called after all. CNTK's libraries look for it in their own folder first.
set -eu

libraries=$(python -c 'import importlib.util as i, os
print(os.path.join(os.path.dirname(i.find_spec("cntk").origin), "libs"))')
compiler=${CC:-gcc}
if ! command -v "$compiler" > /dev/null; then
    echo "envs/cntk.post-deploy.sh: no C compiler $compiler on PATH, which CNTK 2.5.1 needs once," \
        "for its stand-in for MPI; install one (Debian: gcc libc6-dev)" >&2
    exit 69
fi

"$compiler" -O1 -Wall -Werror -shared -fPIC -Wl,-soname,libmpi.so.12 \
    -o "$libraries/libmpi.so.12" -x c - << 'SOURCE'
#include <stdio.h>
#include <stdlib.h>

static void refuse(const char *name)
{
    fprintf(stderr, "%s was called: this CNTK has a stand-in for MPI, and trains in one process "
            "alone\n", name);
    abort();
}

#define FUNCTION(name) void name(void) { refuse(#name); }
#define OBJECT(name) char name[1024]; /* at least as large as Open MPI's own, ABI version 12 */

FUNCTION(MPI_Abort) FUNCTION(MPI_Accumulate) FUNCTION(MPI_Allgather) FUNCTION(MPI_Allgatherv)
FUNCTION(MPI_Allreduce) FUNCTION(MPI_Alltoall) FUNCTION(MPI_Alltoallv) FUNCTION(MPI_Alltoallw)
FUNCTION(MPI_Barrier) FUNCTION(MPI_Bcast) FUNCTION(MPI_Bsend) FUNCTION(MPI_Bsend_init)
FUNCTION(MPI_Cancel) FUNCTION(MPI_Cart_coords) FUNCTION(MPI_Cart_create) FUNCTION(MPI_Cart_get)
FUNCTION(MPI_Cart_map) FUNCTION(MPI_Cart_rank) FUNCTION(MPI_Cart_shift) FUNCTION(MPI_Cart_sub)
FUNCTION(MPI_Cartdim_get) FUNCTION(MPI_Comm_accept) FUNCTION(MPI_Comm_connect)
FUNCTION(MPI_Comm_create) FUNCTION(MPI_Comm_delete_attr) FUNCTION(MPI_Comm_disconnect)
FUNCTION(MPI_Comm_dup) FUNCTION(MPI_Comm_free) FUNCTION(MPI_Comm_get_attr)
FUNCTION(MPI_Comm_get_errhandler) FUNCTION(MPI_Comm_get_name) FUNCTION(MPI_Comm_group)
FUNCTION(MPI_Comm_rank) FUNCTION(MPI_Comm_remote_group) FUNCTION(MPI_Comm_remote_size)
FUNCTION(MPI_Comm_set_attr) FUNCTION(MPI_Comm_set_errhandler) FUNCTION(MPI_Comm_set_name)
FUNCTION(MPI_Comm_size) FUNCTION(MPI_Comm_spawn) FUNCTION(MPI_Comm_spawn_multiple)
FUNCTION(MPI_Comm_split) FUNCTION(MPI_Comm_test_inter) FUNCTION(MPI_Errhandler_free)
FUNCTION(MPI_Error_string) FUNCTION(MPI_Exscan) FUNCTION(MPI_Finalize) FUNCTION(MPI_Gather)
FUNCTION(MPI_Gatherv) FUNCTION(MPI_Get) FUNCTION(MPI_Get_count) FUNCTION(MPI_Get_elements)
FUNCTION(MPI_Get_processor_name) FUNCTION(MPI_Graph_create) FUNCTION(MPI_Graph_get)
FUNCTION(MPI_Graph_map) FUNCTION(MPI_Graph_neighbors) FUNCTION(MPI_Graph_neighbors_count)
FUNCTION(MPI_Graphdims_get) FUNCTION(MPI_Grequest_complete) FUNCTION(MPI_Group_excl)
FUNCTION(MPI_Group_free) FUNCTION(MPI_Group_incl) FUNCTION(MPI_Group_range_excl)
FUNCTION(MPI_Group_range_incl) FUNCTION(MPI_Group_rank) FUNCTION(MPI_Group_size)
FUNCTION(MPI_Iallgather) FUNCTION(MPI_Iallreduce) FUNCTION(MPI_Ibsend) FUNCTION(MPI_Info_delete)
FUNCTION(MPI_Info_dup) FUNCTION(MPI_Info_free) FUNCTION(MPI_Info_get)
FUNCTION(MPI_Info_get_nkeys) FUNCTION(MPI_Info_get_nthkey) FUNCTION(MPI_Info_get_valuelen)
FUNCTION(MPI_Info_set) FUNCTION(MPI_Init_thread) FUNCTION(MPI_Initialized)
FUNCTION(MPI_Intercomm_create) FUNCTION(MPI_Intercomm_merge) FUNCTION(MPI_Iprobe)
FUNCTION(MPI_Irecv) FUNCTION(MPI_Irsend) FUNCTION(MPI_Isend) FUNCTION(MPI_Issend)
FUNCTION(MPI_Op_commutative) FUNCTION(MPI_Op_create) FUNCTION(MPI_Op_free) FUNCTION(MPI_Pack)
FUNCTION(MPI_Pack_external) FUNCTION(MPI_Pack_external_size) FUNCTION(MPI_Pack_size)
FUNCTION(MPI_Probe) FUNCTION(MPI_Put) FUNCTION(MPI_Recv) FUNCTION(MPI_Recv_init)
FUNCTION(MPI_Reduce) FUNCTION(MPI_Reduce_local) FUNCTION(MPI_Reduce_scatter)
FUNCTION(MPI_Request_free) FUNCTION(MPI_Request_get_status) FUNCTION(MPI_Rsend)
FUNCTION(MPI_Rsend_init) FUNCTION(MPI_Scan) FUNCTION(MPI_Scatter) FUNCTION(MPI_Scatterv)
FUNCTION(MPI_Send) FUNCTION(MPI_Send_init) FUNCTION(MPI_Sendrecv) FUNCTION(MPI_Sendrecv_replace)
FUNCTION(MPI_Ssend) FUNCTION(MPI_Ssend_init) FUNCTION(MPI_Start)
FUNCTION(MPI_Status_set_cancelled) FUNCTION(MPI_Status_set_elements) FUNCTION(MPI_Test)
FUNCTION(MPI_Test_cancelled) FUNCTION(MPI_Topo_test) FUNCTION(MPI_Type_commit)
FUNCTION(MPI_Type_contiguous) FUNCTION(MPI_Type_create_darray)
FUNCTION(MPI_Type_create_hindexed) FUNCTION(MPI_Type_create_hvector)
FUNCTION(MPI_Type_create_indexed_block) FUNCTION(MPI_Type_create_resized)
FUNCTION(MPI_Type_create_subarray) FUNCTION(MPI_Type_delete_attr) FUNCTION(MPI_Type_dup)
FUNCTION(MPI_Type_get_attr) FUNCTION(MPI_Type_get_contents) FUNCTION(MPI_Type_get_envelope)
FUNCTION(MPI_Type_get_extent) FUNCTION(MPI_Type_get_name) FUNCTION(MPI_Type_get_true_extent)
FUNCTION(MPI_Type_indexed) FUNCTION(MPI_Type_set_attr) FUNCTION(MPI_Type_set_name)
FUNCTION(MPI_Type_size) FUNCTION(MPI_Type_vector) FUNCTION(MPI_Unpack)
FUNCTION(MPI_Unpack_external) FUNCTION(MPI_Wait) FUNCTION(MPI_Waitall) FUNCTION(MPI_Waitany)
FUNCTION(MPI_Win_call_errhandler) FUNCTION(MPI_Win_complete) FUNCTION(MPI_Win_delete_attr)
FUNCTION(MPI_Win_fence) FUNCTION(MPI_Win_get_errhandler) FUNCTION(MPI_Win_get_group)
FUNCTION(MPI_Win_get_name) FUNCTION(MPI_Win_lock) FUNCTION(MPI_Win_post)
FUNCTION(MPI_Win_set_attr) FUNCTION(MPI_Win_set_errhandler) FUNCTION(MPI_Win_set_name)
FUNCTION(MPI_Win_start) FUNCTION(MPI_Win_test) FUNCTION(MPI_Win_unlock) FUNCTION(MPI_Win_wait)
FUNCTION(ompi_mpi_cxx_op_intercept) FUNCTION(ompi_op_set_cxx_callback)
FUNCTION(_ZN3MPI3Win4FreeEv) FUNCTION(_ZN3MPI4CommC2Ev) FUNCTION(_ZN3MPI8Datatype4FreeEv)
OBJECT(ompi_mpi_char) OBJECT(ompi_mpi_comm_null) OBJECT(ompi_mpi_comm_world)
OBJECT(ompi_mpi_double) OBJECT(ompi_mpi_float) OBJECT(ompi_mpi_int)
OBJECT(ompi_mpi_long_long_int) OBJECT(ompi_mpi_op_sum)
SOURCE
ln -sf libmpi.so.12 "$libraries/libmpi_cxx.so.1"

python -W ignore -c 'import cntk'
