// Poseidon's maximum per-hop delay (NSDI 2023, section 4, listing 1) in a tag of its
// own, for v1model. docs/telemetry.md has the format and the roles of ports.
//
// v1model's clock ticks once a microsecond, so that a delay is 0, 3, 7, 11, 15, ...
// units of 256 ns: poseidon_mpd_tna.p4 has Tofino's nanoseconds.

#include <core.p4>
#include <v1model.p4>

#define TAG_VALUE
#include "sluice/headers.p4"

// Roles of ports that have no entry.
#ifndef INGRESS_ROLE
#define INGRESS_ROLE leave
#endif
#ifndef EGRESS_ROLE
#define EGRESS_ROLE keep
#endif

#define VALUE_MAX 0x7fff

struct metadata_t {
}

#include "sluice/v1model.p4"

control FrameIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
#include "sluice/forward_v1model.p4"

    action leave() {
    }

    // The port leads to senders that put no tag on their packets.
    action insert() {
        hdr.tag.setValid();
        hdr.tag.tpid = ETHERTYPE_VALUE;
        hdr.tag.value = 0;
    }

    table ingress_role {
        key = { sm.ingress_port : exact @name("ingress_port"); }
        actions = { leave; insert; }
        default_action = INGRESS_ROLE();
        size = 512;
    }

    apply {
        // In one place, as BMv2 wants each table.
        if (hdr.mac.isValid()) {
            forward.apply();
        } else {
            to_pair();
        }
        if (sm.parser_error == error.NoError) {
            if (hdr.bth.isValid() && !hdr.tag.isValid()) {
                ingress_role.apply();
            }
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action keep() {
    }

    // The port leads to a NIC that does not know the tag.
    action strip() {
        hdr.tag.setInvalid();
        hdr.tag_back.setInvalid();
    }

    table egress_role {
        key = { sm.egress_port : exact @name("egress_port"); }
        actions = { keep; strip; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    apply {
#include "sluice/prune_v1model.p4"
        if (sm.parser_error == error.NoError) {
            if (hdr.tag.isValid()) {
                bit<64> delay = ((bit<64>)sm.deq_timedelta * TICK_NS) >> 8;
                if (delay > VALUE_MAX) {
                    delay = VALUE_MAX;
                }
                if ((bit<16>)delay > hdr.tag.value) {
                    hdr.tag.value = (bit<16>)delay;
                }
            }
            if (hdr.tag.isValid() || hdr.tag_back.isValid()) {
                if (!hdr.bth.isValid() || hdr.bth.opcode != OPCODE_PROBE) {
                    egress_role.apply();
                }
            }
        }
    }
}

V1Switch(FrameParser(), NoChecksumVerified(), FrameIngress(), FrameEgress(), NoChecksumUpdated(), FrameDeparser()) main;
