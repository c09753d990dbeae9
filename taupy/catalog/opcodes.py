"""NVIDIA's machine instructions by name: the kind of work, and the pipe that executes it.

Source: names from NVIDIA, CUDA Binary Utilities 13, "Instruction Set Reference", one table per
family; pipes from Nsight Compute 2025's documentation, "Pipelines". An instruction that is in no
table here counts as unknown and is named.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Opcode(NamedTuple):
    """Attributes:
    kind: one of `KINDS`.
    pipe: fp64, fma, alu, fp16, xu, tensor, lsu, tex, tma, uniform, cbu, adu, or - for none.
    space: the memory that loads, stores and atomics access.
    """

    kind: str
    pipe: str
    space: str = ""


KINDS = ("fp64", "fp32", "fp16", "tensor", "integer", "conversion", "special", "load", "store",
         "atomic", "barrier", "warp", "texture", "control", "move", "other",
         "unknown")  # fmt: skip

UNKNOWN = Opcode("unknown", "-")

# kind | pipe | names; of what reaches memory: kind, space
_VOLTA = """
fp64 | fp64 | DADD DFMA DMUL DSETP
fp32 | fma | FADD FADD32I FFMA FFMA32I FMUL FMUL32I
fp32 | alu | FCHK FMNMX FSEL FSET FSETP FSWZADD
special | xu | MUFU
fp16 | fp16 | HADD2 HADD2_32 HFMA2 HFMA2_32 HMUL2 HMUL2_32 HSET2 HSETP2
tensor | tensor | HMMA
integer | fma | IMAD IDP IDP4A IMUL IMUL32I XMAD
integer | alu | BMSK IABS IADD IADD3 IADD32I IMNMX ISCADD ISCADD32I ISETP LEA LOP LOP3 LOP32I
integer | alu | SHF SHL SHR VABSDIFF VABSDIFF4 SGXT PRMT SEL PLOP3 PSETP
integer | xu | BREV FLO POPC
conversion | xu | F2F F2I I2F FRND I2I
conversion | alu | I2IP
move | alu | MOV MOV32I P2R R2P
move | lsu | MOVM
move | xu | S2R
move | alu | CS2R
warp | lsu | SHFL MATCH
warp | alu | VOTE
load generic | lsu | LD
load global | lsu | LDG
load local | lsu | LDL
load shared | lsu | LDS LDSM
load constant | adu | LDC
store generic | lsu | ST
store global | lsu | STG
store local | lsu | STL
store shared | lsu | STS
atomic generic | lsu | ATOM QSPC
atomic global | lsu | ATOMG RED
atomic shared | lsu | ATOMS
barrier | adu | BAR MEMBAR ERRBAR DEPBAR
other | lsu | CCTL CCTLL CCTLT
texture | tex | TEX TLD TLD4 TMML TXD TXQ SULD SUST SUATOM SURED
control | cbu | BMOV BPT BRA BREAK BRX BSSY BSYNC CALL EXIT JMP JMX KILL NANOSLEEP RET RPCMOV RTT
control | cbu | WARPSYNC YIELD
other | - | NOP PMTRIG B2R LEPC CSMTEST SETCTAID SETLMEMBASE GETLMEMBASE AL2P ALD AST IPA ISBERD
other | - | ISBEWR OUT PIXLD R2B VOTE_VTG STP
"""

_TURING = """
tensor | tensor | BMMA IMMA
integer | uniform | UBMSK UBREV UFLO UIADD3 UIMAD UISETP ULEA ULOP ULOP3 UPLOP3 UPOPC UPRMT UPSETP
integer | uniform | USEL USGXT USHF USHL USHR R2UR
move | uniform | UMOV UP2UR S2UR
warp | uniform | VOTEU
load constant | uniform | ULDC
control | cbu | BRXU JMXU
"""

_AMPERE = """
tensor | tensor | DMMA
fp16 | fp16 | HMNMX2
fp16 | alu | FMNMX3 HMNMX3
conversion | alu | F2FP F2IP I2FP
integer | alu | VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 UF2FP
warp | adu | REDUX
load global | lsu | LDGSTS
barrier | lsu | LDGDEPBAR ARRIVES
load generic | lsu | SULDB
"""

_ADA = """
tensor | tensor | QMMA
"""

_HOPPER = """
tensor | tensor | BGMMA HGMMA IGMMA QGMMA
barrier | lsu | SYNCS FENCE UCGABAR_ARV UCGABAR_WAIT CGAERRBAR
barrier | cbu | ACQBULK ELECT ENDCOLLECTIVE PREEXIT
barrier | tensor | WARPGROUP WARPGROUPSET
load shared | tma | UBLKCP UBLKPF UBLKRED
load global | lsu | LDGMC
load global | tma | UTMALDG UTMAPF
store global | tma | UTMASTG UTMAREDG
other | tma | UTMACCTL UTMACMDFLUSH
store shared | lsu | STAS STSM REDAS
atomic global | lsu | REDG
other | uniform | USETMAXREG UCGABAR
"""

_BLACKWELL = """
fp32 | fma | FADD2 FFMA2 FMUL2
fp32 | uniform | UFADD UFFMA UFMNMX UFMUL UFRND UFSEL UFSET UFSETP
conversion | uniform | UF2F UF2I UF2IP UI2F UI2FP UI2I UI2IP
integer | alu | IADD64 IMNMX3 VIADDMNMX3 UGETNEXTWORKID
integer | uniform | UIADD UIADD3_64 UIABS UIMNMX UISETP64 UVIADD UVIMNMX UVIADDMNMX CREDUX UREDUX
tensor | tensor | OMMA UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCMXQMMA
load tensor | tensor | LDT LDTM
store tensor | tensor | STT STTM
move | tensor | UTCCP UTCSHIFT
other | tensor | UTCATOMSWS UTCBAR
load constant | uniform | LDCU
barrier | uniform | UMEMBAR USYNCS
move | uniform | CS2UR UP2R UR2UP S2UR
other | lsu | CCTL_U UVIRTCOUNT USTGR
integer | uniform | USGXT UMATCH
"""

_FAMILIES = (
    (70, _VOLTA),
    (75, _TURING),
    (80, _AMPERE),
    (89, _ADA),
    (90, _HOPPER),
    (100, _BLACKWELL),
)
"""The compute capability from which a table applies; each table adds to the previous ones."""


@cache
def table(capability: int) -> dict[str, Opcode]:
    """The opcodes by name of a compute capability, such as 90."""
    opcodes: dict[str, Opcode] = {}
    for since, text in _FAMILIES:
        if capability >= since:
            for line in text.strip().splitlines():
                what, pipe, names = (cell.strip() for cell in line.split("|"))
                kind, _, space = what.partition(" ")
                opcodes.update(dict.fromkeys(names.split(), Opcode(kind, pipe, space)))
    return opcodes
