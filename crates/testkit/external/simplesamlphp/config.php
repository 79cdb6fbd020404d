<?php
// SimpleSAMLphp as a second, widely used SAML identity provider for tests.
$options = require __DIR__ . '/options.php';

$config = [
    'baseurlpath' => 'http://' . $_SERVER['HTTP_HOST'] . '/',
    'certdir' => $options['folder'],
    'loggingdir' => $options['folder'],
    'datadir' => $options['folder'],
    'tempdir' => $options['folder'],
    'metadatadir' => __DIR__ . '/metadata',
    'metadata.sources' => [['type' => 'flatfile']],
    'secretsalt' => bin2hex(random_bytes(16)),
    'auth.adminpassword' => bin2hex(random_bytes(16)),
    'admin.checkforupdates' => false,
    'technicalcontact_email' => 'nobody@example.test',
    'timezone' => 'UTC',
    'logging.handler' => 'stderr',
    'logging.level' => SimpleSAML\Logger::WARNING,
    'enable.saml20-idp' => true,
    'module.enable' => ['core' => true, 'saml' => true, 'exampleauth' => true],
    'session.cookie.secure' => false,
    'session.cookie.samesite' => null,
    'session.phpsession.savepath' => $options['folder'],
    'language.cookie.secure' => false,
    'language.cookie.samesite' => null,
    'store.type' => 'phpsession',
];
