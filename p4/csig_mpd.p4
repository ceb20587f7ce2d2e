// CSIG's maximum per-hop delay, signal type 2, in the wide or the compact tag, for
// v1model. docs/telemetry.md has the formats and the roles of ports.
//
// v1model's clock ticks once a microsecond: csig_mpd_tna.p4 has Tofino's nanoseconds.

#include <core.p4>
#include <v1model.p4>

#define TAG_CSIG
#include "sluice/headers.p4"

// Roles of ports that have no entry.
#ifndef INGRESS_ROLE
#define INGRESS_ROLE leave
#endif
#ifndef EGRESS_ROLE
#define EGRESS_ROLE keep
#endif

// Of the wide tag, in nanoseconds; the step is 1 << WIDE_STEP_LOG2.
#ifndef WIDE_BASE
#define WIDE_BASE 0
#endif
#ifndef WIDE_STEP_LOG2
#define WIDE_STEP_LOG2 0
#endif
#define WIDE_MAX 0xfffff

// What the switch writes about itself beside a value of its own.
#ifndef WIDE_LOCATOR
#define WIDE_LOCATOR 0
#endif
#ifndef COMPACT_LOCATOR
#define COMPACT_LOCATOR 0
#endif

struct metadata_t {
}

#include "sluice/v1model.p4"

control FrameIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
#include "sluice/forward_v1model.p4"

    action leave() {
    }

    // The port leads to senders that put no tag on their packets.
    action insert_wide() {
        hdr.wide.setValid();
        hdr.wide.tpid = ETHERTYPE_WIDE;
        hdr.wide.lm = 0;
        hdr.wide.d = 0;
        hdr.wide.t = SIGNAL_DELAY;
        hdr.wide.value = 0;
        hdr.wide.reserved = 0;
    }

    action insert_compact() {
        hdr.compact.setValid();
        hdr.compact.tpid = ETHERTYPE_COMPACT;
        hdr.compact.t = SIGNAL_DELAY;
        hdr.compact.reserved = 0;
        hdr.compact.value = 0;
        hdr.compact.lm = 0;
        hdr.compact.d = 0;
    }

    table ingress_role {
        key = { sm.ingress_port : exact @name("ingress_port"); }
        actions = { leave; insert_wide; insert_compact; }
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
            if (hdr.bth.isValid() && !hdr.wide.isValid() && !hdr.compact.isValid()) {
                ingress_role.apply();
            }
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<64> delay;
    bit<32> delay_ns;
    bit<5>  mine;

    action set_bucket(bit<5> bucket) {
        mine = bucket;
    }

    table buckets {
        key = { delay_ns : range @name("delay"); }
        actions = { set_bucket; }
        const default_action = set_bucket(31);
        const entries = {
#include "sluice/buckets.p4"
        }
        size = 32;
    }

    action keep() {
    }

    // The port leads to a NIC that does not know the tag.
    action strip() {
        hdr.wide.setInvalid();
        hdr.wide_back.setInvalid();
        hdr.compact.setInvalid();
        hdr.compact_back.setInvalid();
    }

    table egress_role {
        key = { sm.egress_port : exact @name("egress_port"); }
        actions = { keep; strip; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    apply {
#include "sluice/prune_v1model.p4"
        delay_ns = 0;
        mine = 0;
        if (sm.parser_error == error.NoError) {
            delay = (bit<64>)sm.deq_timedelta * TICK_NS;
            // d: the packet was trimmed, its value stays.
            if (hdr.wide.isValid() && hdr.wide.t == SIGNAL_DELAY && hdr.wide.d == 0) {
                bit<64> steps = 0;
                if (delay >= WIDE_BASE) {
                    steps = (delay - WIDE_BASE) >> WIDE_STEP_LOG2;
                }
                if (steps > WIDE_MAX) {
                    steps = WIDE_MAX;
                }
                if ((bit<20>)steps > hdr.wide.value) {
                    hdr.wide.value = (bit<20>)steps;
                    hdr.wide.lm = WIDE_LOCATOR;
                }
            }
            if (hdr.compact.isValid() && hdr.compact.t == SIGNAL_DELAY && hdr.compact.d == 0) {
                delay_ns = 0xffffffff;
                if (delay < 0xffffffff) {
                    delay_ns = (bit<32>)delay;
                }
                buckets.apply();
                if (mine > hdr.compact.value) {
                    hdr.compact.value = mine;
                    hdr.compact.lm = COMPACT_LOCATOR;
                }
            }
            if (hdr.wide.isValid() || hdr.wide_back.isValid() || hdr.compact.isValid() || hdr.compact_back.isValid()) {
                if (!hdr.bth.isValid() || hdr.bth.opcode != OPCODE_PROBE) {
                    egress_role.apply();
                }
            }
        }
    }
}

V1Switch(FrameParser(), NoChecksumVerified(), FrameIngress(), FrameEgress(), NoChecksumUpdated(), FrameDeparser()) main;
