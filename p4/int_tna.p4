// Per-hop INT over UDP in HPCC's and PowerTCP's 64 bits a hop, with source and sink,
// for Tofino. docs/telemetry.md has the format and the roles of ports.

#include "sluice/arch_tna.p4"

#define WITH_INT
#define TNA_CHECKSUM
#include "sluice/headers.p4"

// Roles of ports that have no entry.
#ifndef INGRESS_ROLE
#define INGRESS_ROLE leave
#endif
#ifndef EGRESS_ROLE
#define EGRESS_ROLE keep
#endif

// Rate of ports that have no entry, as a code of the network's table: 15 is none, and
// senders can do nothing with it.
#ifndef RATE_CODE
#define RATE_CODE 15
#endif
#if RATE_CODE < 0 || RATE_CODE > 15
#error RATE_CODE must be from 0 to 15
#endif

struct metadata_t {
    bool    checksum_error;
    bool    changed;   // lengths, or a bit that the UDP checksum covers
    bit<1>  sink;
    bit<4>  rate;
    bit<16> removed;   // bytes
    bit<16> queue;     // in cells
    bit<16> length;    // of the packet as it leaves
    bit<32> sent;      // by the port, this packet not counted
    bit<48> time;
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

    // The port leads to senders: what they send gets a shim.
    action source() {
        hdr.shim.setValid();
        hdr.shim.type_ = INT_TYPE;
        hdr.shim.npt = INT_NPT;
        hdr.shim.overflow = 0;
        hdr.shim.reflected = 0;
        hdr.shim.words = 0;
        hdr.shim.port = hdr.udp.dst_port;
        hdr.udp.dst_port = INT_PORT;
        hdr.udp.len = hdr.udp.len + INT_SHIM_BYTES;
        hdr.udp.checksum = 0;
        meta.changed = true;
    }

    table ingress_role {
        key = { ig_intr_md.ingress_port : exact @name("ingress_port"); }
        actions = { leave; source; }
        default_action = INGRESS_ROLE();
        size = 512;
    }

    apply {
        meta.changed = false;
        if (ig_prsr_md.parser_err != 0) {
            malformed.count(ig_intr_md.ingress_port);
            discard();
        } else {
            forward.apply();
            if (hdr.bth.isValid() && !hdr.shim.isValid() && !meta.checksum_error) {
                ingress_role.apply();
                if (meta.changed) {
                    if (hdr.ipv4.isValid()) {
                        hdr.ipv4.total_len = hdr.ipv4.total_len + INT_SHIM_BYTES;
                    } else {
                        hdr.ipv6.payload_len = hdr.ipv6.payload_len + INT_SHIM_BYTES;
                    }
                }
            }
        }
    }
}

control FrameEgress(inout headers_t hdr, inout metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    // Bytes that each port has sent, as they leave.
    Register<bit<32>, PortId_t>(512, 0) tx_bytes;
    RegisterAction<bit<32>, PortId_t, bit<32>>(tx_bytes) count = {
        void apply(inout bit<32> value, out bit<32> before) {
            before = value;
            value = value + (bit<32>)meta.length;
        }
    };

    action keep() {
        meta.sink = 0;
    }

    // The port leads to a NIC that does not know INT.
    action sink() {
        meta.sink = 1;
    }

    table egress_role {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { keep; sink; }
        default_action = EGRESS_ROLE();
        size = 512;
    }

    action set_rate(bit<4> code) {
        meta.rate = code;
    }

    table port_rate {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { set_rate; }
        default_action = set_rate(RATE_CODE);
        size = 512;
    }

    action set_removed(bit<16> bytes) {
        meta.removed = bytes;
    }

    // Shim and records, by the shim's count of words.
    table shim_bytes {
        key = { hdr.shim.words : exact; }
        actions = { set_removed; }
        const default_action = set_removed(INT_SHIM_BYTES);
        const entries = {
            2: set_removed(INT_SHIM_BYTES + INT_HOP_BYTES);
            4: set_removed(INT_SHIM_BYTES + 2 * INT_HOP_BYTES);
            6: set_removed(INT_SHIM_BYTES + 3 * INT_HOP_BYTES);
            8: set_removed(INT_SHIM_BYTES + 4 * INT_HOP_BYTES);
            10: set_removed(INT_SHIM_BYTES + 5 * INT_HOP_BYTES);
            12: set_removed(INT_SHIM_BYTES + 6 * INT_HOP_BYTES);
            14: set_removed(INT_SHIM_BYTES + 7 * INT_HOP_BYTES);
            16: set_removed(INT_SHIM_BYTES + 8 * INT_HOP_BYTES);
        }
        size = 16;
    }

    action strip() {
        meta.changed = true;
        hdr.udp.dst_port = hdr.shim.port;
        hdr.udp.len = hdr.udp.len - meta.removed;
        hdr.udp.checksum = 0;
        meta.length = meta.length - meta.removed;
        hdr.shim.setInvalid();
#include "sluice/drop_hops.p4"
    }

    // All of a record but what the register yields, tx_bytes.
    action push() {
        meta.changed = true;
        hdr.mine.setValid();
        hdr.mine.rate = meta.rate;
        hdr.mine.time = (bit<24>)meta.time;
        hdr.mine.qlen = meta.queue;
        hdr.shim.words = hdr.shim.words + INT_HOP_WORDS;
        hdr.udp.len = hdr.udp.len + INT_HOP_BYTES;
        hdr.udp.checksum = 0;
        meta.length = meta.length + INT_HOP_BYTES;
    }

    apply {
        meta.changed = false;
        meta.sink = 0;
        meta.length = eg_intr_md.pkt_length;
        meta.time = eg_prsr_md.global_tstamp;
        meta.queue = (bit<16>)eg_intr_md.deq_qdepth;
        if (eg_intr_md.deq_qdepth[18:16] != 0) {
            meta.queue = 0xffff;
        }
        if (hdr.shim.isValid() && hdr.bth.isValid() && !meta.checksum_error) {
            port_rate.apply();
            if (hdr.bth.opcode != OPCODE_PROBE) {
                egress_role.apply();
            }
            if (meta.sink == 1) {
                shim_bytes.apply();
                strip();
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.total_len = hdr.ipv4.total_len - meta.removed;
                } else {
                    hdr.ipv6.payload_len = hdr.ipv6.payload_len - meta.removed;
                }
            } else if (hdr.shim.reflected == 0) {
                if (hdr.shim.words == INT_HOPS * INT_HOP_WORDS) {
                    hdr.shim.overflow = 1;
                    hdr.udp.checksum = 0;
                } else {
                    push();
                    if (hdr.ipv4.isValid()) {
                        hdr.ipv4.total_len = hdr.ipv4.total_len + INT_HOP_BYTES;
                    } else {
                        hdr.ipv6.payload_len = hdr.ipv6.payload_len + INT_HOP_BYTES;
                    }
                }
            }
        }
        meta.sent = count.execute(eg_intr_md.egress_port);
        if (hdr.mine.isValid()) {
            hdr.mine.tx_bytes = meta.sent[26:7];
        }
    }
}

Pipeline(FrameIngressParser(), FrameIngress(), FrameIngressDeparser(), FrameEgressParser(), FrameEgress(), FrameEgressDeparser()) pipe;

Switch(pipe) main;
