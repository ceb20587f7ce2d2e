/* Widths and types of Tofino 1. */
#ifndef _TOFINO1_P4_SPECS_
#define _TOFINO1_P4_SPECS_

#include <core.p4>

#define PORT_ID_WIDTH            9
#define MULTICAST_GROUP_ID_WIDTH 16
#define QUEUE_ID_WIDTH           5
#define MIRROR_TYPE_WIDTH        3
#define MIRROR_ID_WIDTH          10
#define RESUBMIT_TYPE_WIDTH      3
#define DIGEST_TYPE_WIDTH        3
#define REPLICATION_ID_WIDTH     16
#define L1_EXCLUSION_ID_WIDTH    16
#define L2_EXCLUSION_ID_WIDTH    9

// What lies between ingress_intrinsic_metadata_t and the packet, in bits.
const bit<32> PORT_METADATA_SIZE = 64;

#include <tofino_types.p4>

#endif
