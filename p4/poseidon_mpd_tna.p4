// Poseidon's maximum per-hop delay (NSDI 2023, section 4, listing 1) in a tag of its
// own, for Tofino. docs/telemetry.md has the format and the roles of ports.

#include "sluice/arch_tna.p4"

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
    bit<16> mine;
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
    action insert() {
        hdr.tag.setValid();
        hdr.tag.tpid = ETHERTYPE_VALUE;
        hdr.tag.value = 0;
    }

    table ingress_role {
        key = { ig_intr_md.ingress_port : exact @name("ingress_port"); }
        actions = { leave; insert; }
        default_action = INGRESS_ROLE();
        size = 512;
    }

    apply {
        if (ig_prsr_md.parser_err != 0) {
            malformed.count(ig_intr_md.ingress_port);
            discard();
        } else {
            forward.apply();
            if (hdr.bth.isValid() && !hdr.tag.isValid()) {
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
    action keep() {
    }

    // The port leads to a NIC that does not know the tag.
    action strip() {
        hdr.tag.setInvalid();
        hdr.tag_back.setInvalid();
    }

    table egress_role {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { keep; strip; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    apply {
#if __TARGET_TOFINO__ == 2
        meta.mine = eg_intr_md.deq_timedelta[23:8];
        if (eg_intr_md.deq_timedelta[31:23] != 0) {
            meta.mine = VALUE_MAX;
        }
#else
        // At most 1023.
        meta.mine = (bit<16>)eg_intr_md.deq_timedelta[17:8];
#endif
        if (hdr.tag.isValid()) {
            hdr.tag.value = max(hdr.tag.value, meta.mine);
        }
        if (hdr.tag.isValid() || hdr.tag_back.isValid()) {
            if (!hdr.bth.isValid() || hdr.bth.opcode != OPCODE_PROBE) {
                egress_role.apply();
            }
        }
    }
}

Pipeline(FrameIngressParser(), FrameIngress(), FrameIngressDeparser(), FrameEgressParser(), FrameEgress(), FrameEgressDeparser()) pipe;

Switch(pipe) main;
