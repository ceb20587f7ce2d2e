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

    // A range has at most 20 bits. Tofino 2's deq_timedelta has more than these 18: a
    // longer wait is in the last bucket.
    table buckets {
        key = { eg_intr_md.deq_timedelta[17:0] : range @name("delay"); }
        actions = { set_bucket; }
        const default_action = set_bucket(31);
        const entries = {
#include "sluice/buckets.p4"
        }
        size = 32;
    }

    // Each operation stands in a table of its own: the compiler would put what two
    // statements compute into one action, or into a condition, which is too much for a
    // stage.
#if WIDE_BASE > 0
    action subtract_base() {
        meta.mine = meta.mine |-| WIDE_BASE;
    }

    table wide_base {
        actions = { subtract_base; }
        const default_action = subtract_base();
        size = 1;
    }

#endif
#if WIDE_STEP_LOG2 > 0
    action divide() {
        meta.mine = meta.mine >> WIDE_STEP_LOG2;
    }

    table wide_step {
        actions = { divide; }
        const default_action = divide();
        size = 1;
    }

#endif
#if __TARGET_TOFINO__ == 2
    // Tofino 1's 18 bits are within.
    action limit() {
        meta.mine = min(meta.mine, (bit<32>)WIDE_MAX);
    }

    table wide_limit {
        actions = { limit; }
        const default_action = limit();
        size = 1;
    }

#endif
    // Two fields of a packet can't be compared, but a difference can be with 0.
    action set_excess() {
        meta.excess = meta.mine |-| meta.theirs;
    }

    table wide_excess {
        actions = { set_excess; }
        const default_action = set_excess();
        size = 1;
    }

    action set_bucket_excess() {
        meta.bucket_excess = meta.my_bucket |-| meta.their_bucket;
    }

    table compact_excess {
        actions = { set_bucket_excess; }
        const default_action = set_bucket_excess();
        size = 1;
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
        // d: the packet was trimmed, its value stays.
        if (hdr.wide.isValid() && hdr.wide.t == SIGNAL_DELAY && hdr.wide.d == 0) {
            meta.mine = (bit<32>)eg_intr_md.deq_timedelta;
#if WIDE_BASE > 0
            wide_base.apply();
#endif
#if WIDE_STEP_LOG2 > 0
            wide_step.apply();
#endif
#if __TARGET_TOFINO__ == 2
            wide_limit.apply();
#endif
            meta.theirs = (bit<32>)hdr.wide.value;
            wide_excess.apply();
            if (meta.excess != 0) {
                hdr.wide.value = (bit<20>)meta.mine;
                hdr.wide.lm = WIDE_LOCATOR;
            }
        }
        if (hdr.compact.isValid() && hdr.compact.t == SIGNAL_DELAY && hdr.compact.d == 0) {
#if __TARGET_TOFINO__ == 2
            if (eg_intr_md.deq_timedelta[31:18] != 0) {
                meta.my_bucket = 31;
            } else {
                buckets.apply();
            }
#else
            buckets.apply();
#endif
            meta.their_bucket = (bit<8>)hdr.compact.value;
            compact_excess.apply();
            if (meta.bucket_excess != 0) {
                hdr.compact.value = (bit<5>)meta.my_bucket;
            }
            // They share a byte, so one action can't write both.
            if (meta.bucket_excess != 0) {
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
