<?php
// The one service it knows: ours.
$options = require dirname(__DIR__) . '/options.php';

$metadata[$options['audience']] = [
    'AssertionConsumerService' => $options['acs'],
    'NameIDFormat' => 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
    'simplesaml.nameidattribute' => 'id',
    'saml20.sign.response' => $options['signed'] !== 'assertion',
    'saml20.sign.assertion' => $options['signed'] !== 'response',
];
if ($options['encryption_certificate'] !== null) {
    $metadata[$options['audience']]['certificate'] = $options['encryption_certificate'];
    $metadata[$options['audience']]['assertion.encryption'] = true;
}
