"""The webhook certificate itself: its validity, key and extensions, when it is renewed, and what makes it unusable. No
I/O, and the time is an argument.

``certificate.CertificateManager`` calls it.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = timedelta(days=365)
RENEW_AFTER = VALIDITY * 2 / 3
BACKDATED = timedelta(hours=1)  # for API servers whose clock is behind

_NO_USE = dict.fromkeys(
    ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
    False,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, its key, and the authorities that clients have to trust, the newest first. All are PEM."""

    certificate: bytes
    key: bytes
    authorities: bytes


def service_name(service: str, namespace: str) -> str:
    """Return the host name by which the API server calls a service."""
    return f"{service}.{namespace}.svc"


def issue(name: str, now: datetime, earlier: bytes = b"") -> Pair:
    """Return a new certificate for the host, signed by a new authority.

    The newest of the ``earlier`` authorities stays trusted, for replicas that still serve what it signed. The
    certificate is also valid for localhost: a scheduler outside of the cluster is called by URL.

    Parameters
    ----------
    name
        The host name.
    now
        The time of issue.
    earlier
        The authorities so far, the newest first, as PEM.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities are trusted at a time; clients find the right one faster if their names differ.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"kai-sched authority {now:%Y-%m-%dT%H:%M:%SZ}")])
    authority = (
        _builder(subject, subject, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(digital_signature=False, key_cert_sign=True, crl_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = [x509.DNSName(name), x509.DNSName("localhost")]
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    certificate = (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]), subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True, key_cert_sign=False, crl_sign=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*hosts, *addresses]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key), _pem(authority) + _newest_valid(earlier, now))


def problem(pair: Pair, name: str, now: datetime) -> str:
    """Return what makes the pair unusable for the host, or an empty string.

    A certificate that is not valid yet is no problem: the clocks of two replicas differ, and each would replace the
    certificate of the other.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, None)
        authorities = x509.load_pem_x509_certificates(pair.authorities)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, x509.ExtensionNotFound) as wrong:
        return f"it cannot be read: {wrong}"
    if key.public_key() != certificate.public_key():
        return "the key is not that of the certificate"
    if name not in names.get_values_for_type(x509.DNSName):
        return f"the certificate is not for {name}"
    if not any(_signed(certificate, authority) for authority in authorities):
        return "no authority in it has signed the certificate"
    if now >= certificate.not_valid_after_utc:
        return f"the certificate has ended at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    return ""


def age(pair: Pair, now: datetime) -> timedelta:
    """Return how long ago the certificate was issued."""
    return now - x509.load_pem_x509_certificate(pair.certificate).not_valid_before_utc - BACKDATED


def end(pair: Pair) -> datetime:
    """Return when the certificate ends."""
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool, key_cert_sign: bool, crl_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature=digital_signature, key_cert_sign=key_cert_sign, crl_sign=crl_sign, **_NO_USE)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _newest_valid(authorities: bytes, now: datetime) -> bytes:
    try:
        newest = x509.load_pem_x509_certificates(authorities)[0]
    except ValueError:
        return b""  # there is none, or it is unusable
    return _pem(newest) if now < newest.not_valid_after_utc else b""


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
