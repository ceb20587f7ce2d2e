// CSIG's maximum per-hop delay, signal type 2, in the wide or the compact tag, for
// Tofino. docs/telemetry.md has the formats and the roles of ports.

#include "sluice/arch_tna.p4"

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
    bit<32> mine;
    bit<32> theirs;
    bit<32> excess;
    bit<8>  my_bucket;
    bit<8>  their_bucket;
    bit<8>  bucket_excess;
}

#include "sluice/tna.p4"

control FrameIngress(inout headers_t hdr, inout metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
#include "sluice/forward_tna.p4"

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
        key = { ig_intr_md.ingress_port : exact @name("ingress_port"); }
        actions = { leave; insert_wide; insert_compact; }
        default_action = INGRESS_ROLE();
        size = 512;
    }

    apply {
        if (ig_prsr_md.parser_err != 0) {
            malformed.count(ig_intr_md.ingress_port);
            discard();
        } else {
            forward.apply();
            if (hdr.bth.isValid() && !hdr.wide.isValid() && !hdr.compact.isValid()) {
                ingress_role.apply();
            }
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    action set_bucket(bit<8> bucket) {
        meta.my_bucket = bucket;
    }

    // Ranges of at most 20 bits: deq_timedelta has 18 on Tofino 1.
    table buckets {
        key = { eg_intr_md.deq_timedelta : range @name("delay"); }
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
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { keep; strip; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    apply {
        // d: the packet was trimmed, its value stays. Two fields of a packet can't be
        // compared, but a difference can be with 0.
        if (hdr.wide.isValid() && hdr.wide.t == SIGNAL_DELAY && hdr.wide.d == 0) {
            meta.mine = (bit<32>)eg_intr_md.deq_timedelta |-| WIDE_BASE;
            meta.mine = meta.mine >> WIDE_STEP_LOG2;
            meta.mine = min(meta.mine, (bit<32>)WIDE_MAX);
            meta.theirs = (bit<32>)hdr.wide.value;
            meta.excess = meta.mine |-| meta.theirs;
            if (meta.excess != 0) {
                hdr.wide.value = (bit<20>)meta.mine;
                hdr.wide.lm = WIDE_LOCATOR;
            }
        }
        if (hdr.compact.isValid() && hdr.compact.t == SIGNAL_DELAY && hdr.compact.d == 0) {
            buckets.apply();
            meta.their_bucket = (bit<8>)hdr.compact.value;
            meta.bucket_excess = meta.my_bucket |-| meta.their_bucket;
            if (meta.bucket_excess != 0) {
                hdr.compact.value = (bit<5>)meta.my_bucket;
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

Pipeline(FrameIngressParser(), FrameIngress(), FrameIngressDeparser(), FrameEgressParser(), FrameEgress(), FrameEgressDeparser()) pipe;

Switch(pipe) main;
